"""A run in an object store. It works in a local folder, whose files are copied to the store.

The store counts: another machine that resumes the run copies them back, and a local folder of a run that the store does
not have, or has with another recipe, is deleted. Checkpoints do not pass through the local folder.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from clearhead.files import write_atomic
from clearhead.files.cache import cache_home
from clearhead.files.manifest import Folder
from clearhead.files.s3_folder import upload_file
from clearhead.files.s3_path import S3Path

RECORD = ".store.json"  # in the local folder: entity tag and hash of each file that is the same in the store
RECIPE = "recipe.yaml"
LOGS = ("log.jsonl", "tensorboard")
PREPARED = (RECIPE, "labels.json", "tokenizer", "image_codec")


@dataclass(frozen=True)
class RunMirror:
    """The local folder of a run and its folder in a store."""

    local: Path
    remote: S3Path

    def pull(self) -> None:
        """Make the local folder that of the run in the store; does nothing if it is."""
        self.remote.check_access()
        stored = {name: file for name, file in self.remote.files().items() if _in(name, (*PREPARED, LOGS[0]))}
        record = self._record()
        recipe = stored.get(RECIPE)
        if recipe is None or record.get(RECIPE, [""])[0] != recipe.etag:
            shutil.rmtree(self.local, ignore_errors=True)
            record = {}
        for name, file in stored.items():
            if record.get(name, [""])[0] != file.etag:
                data = (self.remote / name).read_bytes(etag=file.etag)
                (self.local / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self.local / name, data)
                record[name] = [file.etag, hashlib.sha256(data).hexdigest()]
                self._write(record)

    def push(self, names: Iterable[str]) -> None:
        """Copy these files and folders to the store, where they have changed."""
        record = self._record()
        paths = [path for name in names for path in (self.local / name, *(self.local / name).rglob("*"))]
        for path in sorted(path for path in paths if path.is_file()):
            name = path.relative_to(self.local).as_posix()
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if record.get(name, ["", ""])[1] != digest:
                upload_file(path, self.remote / name)
                record[name] = [(self.remote / name).stored().etag, digest]
                self._write(record)

    def _record(self) -> dict[str, list[str]]:
        path = self.local / RECORD
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def _write(self, record: dict[str, list[str]]) -> None:
        write_atomic(self.local / RECORD, json.dumps(record))


def mirror_of(out: Folder) -> RunMirror | None:
    """Return the local folder of a run in a store, which is in the cache; None if the run is in a local folder."""
    return RunMirror(cache_home() / "runs" / out.bucket / out.key, out) if isinstance(out, S3Path) else None


def _in(name: str, places: Iterable[str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)
