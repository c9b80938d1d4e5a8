"""Captions of Flickr8k: the files that `recipes/flickr8k.yaml` and `recipes/flickr8k-gru.yaml` are trained on.

`--write FOLDER` writes `images/`, and a row for each caption in `train.jsonl`, `valid.jsonl` and `test.jsonl`. The
captions of the release have spaces before punctuation and a full stop at the end, which are removed.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
from pathlib import Path

from texts import data_file

PARTS = {"train": "train", "valid": "dev", "test": "test"}


def clean(text: str) -> str:
    """Return a caption as it would be written."""
    text = re.sub(r"\s+([,;:!?.'])", r"\1", " ".join(text.split()))
    return text.removesuffix(".").rstrip()


def write(folder: Path) -> None:
    """Write images and captions, a table for each part of the data set."""
    folder.mkdir(parents=True, exist_ok=True)
    captions: dict[str, list[str]] = {}
    for line in data_file("flickr8k:Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        place, text = line.split("\t", 1)
        captions.setdefault(place.partition("#")[0], []).append(clean(text))
    with tarfile.open(data_file("flickr8k:images96.tar")) as archive:
        archive.extractall(folder, filter="data")
    for part, name in PARTS.items():
        images = data_file(f"flickr8k:Flickr_8k.{name}Images.txt").read_text(encoding="utf-8").split()
        with (folder / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            for image in images:
                for text in captions[image]:
                    row = {"image": f"images96/{image}", "caption": text}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FOLDER", required=True, help="write the data here")
    write(parser.parse_args().write)


if __name__ == "__main__":
    main()
