from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import lzma
import re
import threading
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from clearhead.data import DATASETS, Dataset, RemoteFile, data_home, fetch, import_files, locate, read_rows
from clearhead.data import datasets as module
from clearhead.data.datasets import OPENER, dataset_folder, files_here, open_https
from clearhead.files import MANIFEST, stale_temporaries, verify
from tests.real import DATA


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


FILES = {
    "train.tsv": b"text\tlabel\nfine\tgood\n",
    "deep/er/dev.txt": b"a\nb\n",
    "pairs.zip": zipped({"_about.txt": b"terms", "in/pairs.txt": b"Go.\tVa !\n", "in/": b""}),
}


def toy(files: dict[str, bytes], name: str = "toy", base: str | None = "https://example.org/") -> Dataset:
    return Dataset(
        name=name,
        title="a toy",
        examples=3,
        source="owner/toy at 0123",
        license="none stated",
        about="Nothing.",
        files=tuple(
            RemoteFile(n, hashlib.sha256(data).hexdigest(), len(data), None if base is None else base + n)
            for n, data in files.items()
        ),
    )


def spread(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path / "home"))
    monkeypatch.setitem(DATASETS, "toy", toy(FILES))
    return tmp_path / "home"


@pytest.fixture
def here(tmp_path) -> Path:
    return spread(tmp_path / "here", FILES)


@pytest.fixture
def server(tmp_path):
    """A server of one folder; `paths` maps an address to what it answers instead."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        paths: ClassVar = {}

        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(tmp_path / "here"), **kwargs)

        def do_GET(self):
            answer = self.paths.get(self.path)
            if answer is None:
                super().do_GET()
            else:
                answer(self)

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{served.server_port}/"
        yield address, Handler.paths
        served.shutdown()
        thread.join()


def opener(address):
    return lambda url: urllib.request.urlopen(url.replace("https://example.org/", address), timeout=5)


def test_home(monkeypatch, home):
    assert data_home() == home
    monkeypatch.delenv("CLEARHEAD_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_home() == Path.home() / ".cache" / "clearhead" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert data_home() == Path("/elsewhere/clearhead/data")
    monkeypatch.setenv("CLEARHEAD_CACHE", "/own")
    assert data_home() == Path("/own/data")


def check_kept(home: Path) -> None:
    folder = home / "toy"
    manifest = verify(folder)
    assert manifest.metadata["set"] == "toy" and manifest.metadata["license"] == "none stated"
    assert (folder / "train.tsv").read_bytes() == FILES["train.tsv"]
    assert set(manifest.files) == {"train.tsv", "deep/er/dev.txt", "pairs.zip/_about.txt", "pairs.zip/in/pairs.txt"}
    assert all(files_here(DATASETS["toy"]).values()) and set(files_here(DATASETS["toy"])) == set(FILES)
    assert stale_temporaries(home) == []


@pytest.mark.parametrize("below", ["", "toy"])
@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_a_set_is_taken_from_a_folder(home, tmp_path, below, packed):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packed]
    source = spread(tmp_path / "from" / below, {name + packed: pack(data) for name, data in FILES.items()})
    assert not any(files_here(DATASETS["toy"]).values())
    for _ in range(2):  # again over itself
        assert import_files("toy", tmp_path / "from") == home / "toy"
        check_kept(home)
    assert {p.name for p in source.rglob("*") if p.is_file()} == {Path(n).name + packed for n in FILES}


def test_what_is_missing_or_different_is_named(home, here):
    (here / "train.tsv").unlink()
    (here / "deep/er/dev.txt").write_bytes(b"a\nc\n")
    with pytest.raises(
        ValueError, match=r"here does not hold toy: train\.tsv is missing; deep/er/dev\.txt is a different file"
    ):
        import_files("toy", here)
    (here / "deep/er/dev.txt").unlink()
    with pytest.raises(ValueError, match=r"train\.tsv, deep/er/dev\.txt are missing; the source is owner/toy at 0123"):
        import_files("toy", here)
    for data, says in (
        (FILES["train.tsv"][:-1], r"train\.tsv has 20 bytes, expected 21"),
        (FILES["train.tsv"] + b"x", r"train\.tsv has more than the expected 21 bytes"),
    ):
        spread(here, FILES | {"train.tsv": data})
        with pytest.raises(ValueError, match=says):
            import_files("toy", here)
    (here / "train.tsv").unlink()
    (here / "train.tsv.gz").write_bytes(gzip.compress(FILES["train.tsv"])[:-4])
    with pytest.raises(ValueError, match=r"train\.tsv cannot be decompressed"):
        import_files("toy", here)
    assert list(home.iterdir()) == []


def test_a_failed_copy_leaves_the_old_one(home, here):
    import_files("toy", here)
    (here / "train.tsv").write_bytes(b"")
    with pytest.raises(ValueError, match="expected 21"):
        import_files("toy", here)
    check_kept(home)


def test_files_of_somebody_else_are_not_replaced(home, here):
    spread(home / "toy", {"mine.txt": b"mine"})
    with pytest.raises(ValueError, match="files that clearhead did not put there"):
        import_files("toy", here)
    assert (home / "toy" / "mine.txt").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt", "a\\..\\out.txt", "a//b"])
def test_no_member_of_an_archive_leads_out(home, tmp_path, monkeypatch, name):
    files = {"a.zip": zipped({"fine.txt": b"fine", name: b"out"})}
    monkeypatch.setitem(DATASETS, "toy", toy(files))
    with pytest.raises(ValueError, match=r"a\.zip is refused: .* is not a plain relative path"):
        import_files("toy", spread(tmp_path / "from", files))
    assert list(home.iterdir()) == [] and not list(tmp_path.rglob("out.txt"))


def test_an_archive_that_swells_is_refused(home, tmp_path, monkeypatch):
    files = {"a.zip": zipped({f"{i}.txt": bytes(1000) for i in range(20)})}
    monkeypatch.setitem(DATASETS, "toy", toy(files))
    source = spread(tmp_path / "from", files)
    for limit, value in (("MAX_UNPACKED_BYTES", 19_999), ("MAX_MEMBERS", 19)):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            with pytest.raises(ValueError, match=r"a\.zip is refused: it unpacks to more than"):
                import_files("toy", source)
    import_files("toy", source)
    assert len(list((home / "toy" / "a.zip").iterdir())) == 20


def test_a_set_is_fetched(home, here, server):
    address, _ = server
    heard = []
    assert fetch("toy", heard.append, opener(address)) == home / "toy"
    check_kept(home)
    assert heard == sorted(heard) and heard[-1] == DATASETS["toy"].size


def test_what_is_fetched_must_be_right(home, here, server):
    address, paths = server

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * (1 << 16))
        except OSError:
            pass

    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "21")
        handler.end_headers()
        handler.wfile.write(b"text")

    for answer, says in (
        (endless, r"the download of toy is not as expected: train\.tsv has more than the expected 21 bytes"),
        (cut, r"train\.tsv has 4 bytes, expected 21"),
        (lambda handler: handler.send_error(404), r"toy cannot be downloaded \(HTTP Error 404: .*import a copy"),
        (lambda handler: None, r"toy cannot be downloaded \(Remote end closed connection"),
    ):
        paths["/train.tsv"] = answer
        with pytest.raises(ValueError, match=says):
            fetch("toy", opener=opener(address))
    assert list(home.iterdir()) == []


def test_offline_is_told_with_the_way_out(home):
    def offline(url):
        raise urllib.error.URLError(OSError("no network here"))

    with pytest.raises(
        ValueError,
        match=r"toy cannot be downloaded \(no network here\); import a copy: clearhead data toy --from FOLDER",
    ):
        fetch("toy", opener=offline)


def test_only_https_and_no_way_down(server):
    address, paths = server
    for url in ("http://example.org/a", "file:///etc/passwd", "ftp://example.org/a", "/etc/passwd"):
        with pytest.raises(ValueError, match="is refused: only https URLs are downloaded"):
            open_https(url)

    def redirect(handler):
        handler.send_response(302)
        handler.send_header("Location", address + "other")
        handler.end_headers()

    paths["/moved"] = redirect
    with pytest.raises(ValueError, match=r"/other is refused: only https URLs are downloaded"):
        OPENER.open(address + "moved", timeout=5)


def test_a_set_without_address_is_to_be_brought(monkeypatch):
    monkeypatch.setitem(DATASETS, "toy", toy(FILES, base=None))
    with pytest.raises(ValueError, match=r"no public address .*; import a copy: clearhead data toy --from FOLDER"):
        fetch("toy")
    with pytest.raises(ValueError, match=r"toy is not in .*: import a copy: clearhead data toy --from FOLDER"):
        locate("toy:train.tsv", ".")


def test_references(home, here, tmp_path):
    assert locate("data/x.tsv", tmp_path) == tmp_path / "data/x.tsv"
    assert locate(Path("/x.tsv"), tmp_path) == Path("/x.tsv")
    assert locate(r"C:\x.tsv", tmp_path) == tmp_path / r"C:\x.tsv"
    (tmp_path / "mine:x.tsv").write_text("x")
    assert locate("mine:x.tsv", tmp_path) == tmp_path / "mine:x.tsv"
    with pytest.raises(
        ValueError, match=r"toy is not in .*home: download it: clearhead data toy --fetch; or import a copy"
    ):
        locate("toy:train.tsv", tmp_path)
    with pytest.raises(ValueError, match=r"no data set 'toyy': there are .*; did you mean toy\?"):
        locate("toyy:train.tsv", tmp_path)
    import_files("toy", here)
    assert values(locate("toy:train.tsv", tmp_path)) == [{"text": "fine", "label": "good"}]
    table = read_rows(locate("toy:pairs.zip/in/pairs.txt", tmp_path), {"source": "1", "target": "2"})
    assert [row.values for row in table] == [{"source": "Go.", "target": "Va !"}]
    for name in ("train.tvs", "../toy/train.tsv", "pairs.zip", MANIFEST, "/etc/passwd", "pairs.zip/in/../in/pairs.txt"):
        with pytest.raises(ValueError, match="toy has no file"):
            locate(f"toy:{name}", tmp_path)


def values(path: Path) -> list[dict[str, str]]:
    return [row.values for row in read_rows(path)]


def test_damage_at_home_is_noticed(home, here, monkeypatch, tmp_path):
    import_files("toy", here)
    train = home / "toy" / "train.tsv"
    train.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"train\.tsv has 5 bytes, expected 21; download it"):
        locate("toy:train.tsv", tmp_path)
    assert files_here(DATASETS["toy"]) == {"train.tsv": False, "deep/er/dev.txt": True, "pairs.zip": True}
    train.unlink()
    with pytest.raises(ValueError, match=r"'train\.tsv' is missing from .*; download it"):
        locate("toy:train.tsv", tmp_path)
    (home / "toy" / "pairs.zip" / "_about.txt").unlink()
    assert files_here(DATASETS["toy"]) == {"train.tsv": False, "deep/er/dev.txt": True, "pairs.zip": False}
    text = (home / "toy" / MANIFEST).read_text()
    (home / "toy" / MANIFEST).write_text(text.replace('"size": 4', '"size": 5'))
    with pytest.raises(ValueError, match="toy is not in"):
        locate("toy:train.tsv", tmp_path)
    import_files("toy", here)
    check_kept(home)
    other = replace(DATASETS["toy"], files=DATASETS["toy"].files[:2])
    monkeypatch.setitem(DATASETS, "toy", other)  # a later catalog with other files
    assert dataset_folder(other) is None


def test_the_catalog_is_in_order():
    del DATASETS["toy"]
    assert {"multi30k", "tatoeba", "tinyshakespeare", "wikitext2", "glue", "trec_qc"} <= DATASETS.keys()
    for name, one in DATASETS.items():
        assert one.name == name and re.fullmatch("[a-z][a-z0-9_]+", name)
        assert one.title and one.about.endswith(".") and one.license and one.examples > 0
        assert re.search(r"\S+/\S+ at [0-9a-f]{12}|^npm \S+ \d+\.\d+\.\d+$", one.source)
        assert len({file.name for file in one.files}) == len(one.files)
        for file in one.files:
            assert re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0
            assert file.url is None or re.fullmatch(
                rf"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{{40}}/.*{re.escape(file.name)}", file.url
            )
    json.dumps([vars(file) for one in DATASETS.values() for file in one.files])


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the real data sets are not here")
@pytest.mark.parametrize("name", sorted(DATASETS))
def test_the_catalog_has_the_files_that_are_there(name, home):
    folder = DATA / "bias" if (DATA / "bias" / name).exists() else DATA
    import_files(name, folder)
    assert all(files_here(DATASETS[name]).values())
    if name == "multi30k":
        rows = read_rows({k: locate(f"multi30k:val.{k}.gz", ".") for k in ("en", "de")})
        assert sum(1 for _ in rows) == 1_014
    if name == "tatoeba":
        table = read_rows(locate("tatoeba:fra-eng.zip/fra.txt", "."), {"source": "1", "target": "2"})
        assert sum(1 for _ in table) == 142_787 and table.num_skipped == 0
