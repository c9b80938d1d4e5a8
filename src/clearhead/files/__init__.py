"""Files and folders: written whole, read with care, checked against a manifest."""

from clearhead.files.atomic import leftovers, new_folder, write_atomic
from clearhead.files.manifest import (
    MANIFEST,
    MARKER,
    Damaged,
    File,
    Manifest,
    admit,
    belongs,
    read_manifest,
    verify,
    write_manifest,
)
from clearhead.files.safe import Missing, inside, parse_json, read_bytes, read_config, read_json, sha256
from clearhead.files.tensors import TensorInfo, read_header, weight_files, weight_headers

__all__ = [
    "MANIFEST",
    "MARKER",
    "Damaged",
    "File",
    "Manifest",
    "Missing",
    "TensorInfo",
    "admit",
    "belongs",
    "inside",
    "leftovers",
    "new_folder",
    "parse_json",
    "read_bytes",
    "read_config",
    "read_header",
    "read_json",
    "read_manifest",
    "sha256",
    "verify",
    "weight_files",
    "weight_headers",
    "write_atomic",
    "write_manifest",
]
