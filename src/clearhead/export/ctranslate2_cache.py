"""Cached exports to CTranslate2: a model is exported once, and its export is found again by the hash of its content.

An export lies in the model's folder, in `.ctranslate2`, or in the user's cache where that folder is not ours to write:
it is read-only, belongs to an installed package, or is a snapshot of the hub's cache. The hash is that of the weights
in memory, so an export never belongs to other weights than those it replaces.
"""

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.files import MANIFEST, new_folder, stale_temporaries, verify, write_manifest
from clearhead.files.cache import cache_home

FOLDER = ".ctranslate2"  # in a model folder; its manifest check ignores folders whose name begins with a dot
FORMAT = 1  # of the export; part of the hash
ABANDONED_S = 3600.0  # age of a temporary folder that no running export still writes
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


def cached_export(spec: Any, folder: Path | None, quantization: str) -> Path:
    """Returns the folder of a specification's export, which is written if there is none; it is verified.

    `folder` is the model's. Several processes may export at once: each writes a folder of its own, and renames it when
    it is complete. Exports of earlier weights are removed. An OSError says why nothing can be written.
    """
    name = f"{quantization}-{spec_hash(spec)}"
    homes = list(export_homes(folder))
    for home in homes:
        if is_complete(home / name):
            return home / name
    spec.optimize(quantization=quantization)
    for home in homes[:-1]:
        try:
            return _write(spec, home / name)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
    return _write(spec, homes[-1] / name)


def spec_hash(spec: Any) -> str:
    """Returns a hash of all that an export holds, and of the version of CTranslate2 that writes it."""
    import ctranslate2

    about = [FORMAT, ctranslate2.__version__, spec.name, spec.revision, spec.config.to_dict(), spec._vocabularies]
    digest = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=12)
    for name, value in spec.variables(ordered=True):
        array = value.numpy()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes() if array.ndim == 0 else memoryview(array.reshape(-1)).cast("B"))
    return digest.hexdigest()


def export_homes(folder: Path | None) -> Iterator[Path]:
    """Yields where the exports of a model may lie, the preferred folder first; the last is in the user's cache."""
    if folder is not None and not (folder / "config.json").is_symlink() and "site-packages" not in folder.parts:
        yield folder / FOLDER
    name = hashlib.blake2b(os.fsencode("" if folder is None else folder.resolve()), digest_size=12).hexdigest()
    yield cache_home() / "ctranslate2" / name


def is_complete(export: Path) -> bool:
    """Returns whether an export is there and every byte of it is as it was written."""
    try:
        return (export / MANIFEST).is_file() and bool(verify(export).files)
    except (OSError, ValueError):
        return False


def _write(spec: Any, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new_folder(target, overwrite=True) as temporary:
            spec.save(str(temporary))
            write_manifest(temporary, {"engine": "ctranslate2"})
    except OSError:
        if not is_complete(target):  # otherwise another process was faster
            raise
    kind = target.name.partition("-")[0]
    stale = [other for other in target.parent.glob(f"{kind}-*") if other.name != target.name]
    abandoned = [p for p in stale_temporaries(target.parent) if p.stat().st_mtime < time.time() - ABANDONED_S]
    for other in [*stale, *abandoned]:
        shutil.rmtree(other, ignore_errors=True)
    return target
