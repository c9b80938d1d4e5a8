"""Images as rows: folders, tar files and tables; what cannot be used is named."""

import tarfile

import pytest

from clearhead.data import read_rows
from clearhead.data.image_rows import ImageFile
from clearhead.vision.image_files import MAX_BYTES

COLUMNS = {"image": "train", "label": "folder"}


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / "set" / part / label).mkdir(parents=True)
            for n in range(2):
                (tmp_path / "set" / part / label / f"{n}.JPG").write_bytes(f"{part}{label}{n}".encode())
    (tmp_path / "set" / "train" / "notes.txt").write_text("no image")
    (tmp_path / "set" / "train" / "cat" / "link.jpg").symlink_to("/etc/passwd")
    return tmp_path / "set"


def values(rows):
    return [(row.values["image"].name, row.values["image"].content, row.values["label"]) for row in rows]


EXPECTED = [(f"train/{label}/{n}.JPG", f"train{label}{n}".encode(), label) for label in ("cat", "dog") for n in (0, 1)]


def test_a_folder(folder):
    rows = read_rows(folder, COLUMNS)
    assert values(rows) == EXPECTED == values(rows)
    assert len(list(read_rows(folder, {"image": ".", "label": "folder"}))) == 8
    assert [set(row.values) for row in read_rows(folder, {"image": "test"})] == [{"image"}] * 4


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_tar_file(folder, tmp_path, mode):
    path = tmp_path / f"set.tar{mode[1:].replace(':', '.')}"
    with tarfile.open(path, mode) as archive:
        for part in ("train", "test"):
            for file in sorted((folder / part).rglob("*")):
                archive.add(file, file.relative_to(folder).as_posix(), recursive=False)
    assert sorted(values(read_rows(path, COLUMNS))) == EXPECTED


def test_a_table(folder):
    (folder / "table.csv").write_text("file,class\ntrain/cat/0.JPG,tabby\nnone.jpg,x\ntrain,y\n")
    rows = read_rows(folder / "table.csv", {"image": "file", "label": "class"})
    assert values(rows) == [("train/cat/0.JPG", b"traincat0", "tabby")]
    assert rows.num_skipped == 2 and "there is no file" in rows.report() and "none.jpg" in rows.report()


def test_large_files_are_named(folder):
    with (folder / "train" / "cat" / "1.JPG").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    rows = read_rows(folder, COLUMNS)
    assert len(values(rows)) == 3
    assert "train/cat/1.JPG" in rows.report() and "bytes are more than" in rows.report()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": "../set", "label": "folder"}, "inside"), ({"image": "/", "label": "folder"}, "inside"),
        ({"image": "tran", "label": "folder"}, "there is no folder"),
        ({"image": "train", "label": "class"}, "'class': of images in folders"),
    ],
)  # fmt: skip
def test_wrong_columns_are_refused(folder, columns, message):
    with pytest.raises(ValueError, match=message):
        list(read_rows(folder, columns))


def test_equal_pictures_are_equal_as_text():
    assert str(ImageFile("a", b"x")) == str(ImageFile("b", b"x")) != str(ImageFile("a", b"y"))
