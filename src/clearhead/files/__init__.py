"""Atomic writes, safe reads, manifests and safetensors headers."""

from clearhead.files.atomic import new_folder, publish_folder, stale_temporaries, sync_tree, write_atomic
from clearhead.files.manifest import (
    MANIFEST,
    MARKER,
    FileEntry,
    IntegrityError,
    Manifest,
    is_marked,
    mark,
    read_manifest,
    read_parts,
    verify,
    verify_if_marked,
    write_manifest,
)
from clearhead.files.safe import MissingFile, parse_json, read_bytes, read_config, read_json, safe_join, sha256
from clearhead.files.tensors import TensorInfo, read_header, weight_files, weight_headers

__all__ = [
    "MANIFEST", "MARKER", "FileEntry", "IntegrityError", "Manifest", "MissingFile", "TensorInfo", "is_marked",
    "mark", "new_folder", "parse_json", "publish_folder", "read_bytes", "read_config", "read_header", "read_json",
    "read_manifest", "read_parts", "safe_join", "sha256", "stale_temporaries", "sync_tree", "verify",
    "verify_if_marked", "weight_files", "weight_headers", "write_atomic", "write_manifest",
]  # fmt: skip
