"""Emoji: the data of `recipes/emoji.yaml`, and how well a trained model draws them.

`--write FOLDER` cuts the sheet of emoji-datasource-twitter into images on white ground and writes `train.jsonl`,
`valid.jsonl` and `classify.jsonl`: every tenth name is held out, with all its skin tones.
With `--model` and `--classifier` (a model of `recipes/emoji-classify.yaml`), images are drawn for names that were
trained on and for held-out ones, and the classifier names their category. The last line is a JSON object with the
shares of right ones, and that of the classifier on real images that it has not seen.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from PIL import Image

from benchmark import Benchmark
from texts import data_file

CELL, SIDE = 66, 64
TONES = {"1F3FB": "light skin", "1F3FC": "medium light skin", "1F3FD": "medium skin", "1F3FE": "medium dark skin",
         "1F3FF": "dark skin"}  # fmt: skip


def entries() -> list[dict[str, Any]]:
    """Return all emoji: their text, category, base name, and place on the sheet."""
    found: list[dict[str, Any]] = []
    for record in json.loads(data_file("emoji_twitter:emoji.json").read_text(encoding="utf-8")):
        name = record["name"].lower().replace("flag: ", "flag of ")
        base = {"name": name, "category": record["category"]}
        found.append({**base, "text": name, "x": record["sheet_x"], "y": record["sheet_y"]})
        for tones, variation in record.get("skin_variations", {}).items():
            words = " and ".join(TONES[tone] for tone in tones.split("-") if tone in TONES)
            found.append({**base, "text": f"{name}, {words}", "x": variation["sheet_x"], "y": variation["sheet_y"]})
    return found


def write(folder: Path) -> None:
    """Write the images and the tables."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    sheet = Image.open(data_file("emoji_twitter:sheet-256-64.png")).convert("RGBA")
    rows = entries()
    names = sorted({row["name"] for row in rows})
    held = set(random.Random(1).sample(names, len(names) // 10))
    tables: dict[str, list[dict[str, str]]] = {"train": [], "valid": [], "classify": [], "classify-test": []}
    for i, row in enumerate(rows):
        left, top = CELL * row["x"] + 1, CELL * row["y"] + 1
        image = Image.new("RGB", (SIDE, SIDE), "white")
        cut = sheet.crop((left, top, left + SIDE, top + SIDE))
        image.paste(cut, mask=cut.getchannel("A"))
        file = f"images/{i:04}.png"
        image.save(folder / file)
        seen = row["name"] not in held
        tables["train" if seen else "valid"].append({"image": file, "text": row["text"]})
        if row["category"] != "Component":
            tables["classify" if seen else "classify-test"].append({"image": file, "label": row["category"]})
    for name, table in tables.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in table)


def measure(model: str, classifier: str, folder: Path, count: int) -> dict[str, Any]:
    """Return the share of drawn images whose category the classifier names, for seen and held-out names."""
    import clearhead

    draws, names = clearhead.load(model), clearhead.load(classifier)
    category = {row["text"]: row["category"] for row in entries()}
    result: dict[str, Any] = {}
    for part, file in (("seen", "train"), ("held_out", "valid")):
        rows = [json.loads(line) for line in (folder / f"{file}.jsonl").read_text().splitlines()]
        texts = [row["text"] for row in rows if category[row["text"]] != "Component"]
        texts = random.Random(2).sample(texts, min(count, len(texts)))
        images = draws.draw(texts, seed=1)
        answers = names.classify(list(images))
        right = [answer.answer == category[text] for answer, text in zip(answers, texts, strict=True)]
        result[part] = round(100 * sum(right) / len(right), 1)
    real = [json.loads(line) for line in (folder / "classify-test.jsonl").read_text().splitlines()]
    answers = names.classify([folder / row["image"] for row in real])
    right = [answer.answer == row["label"] for answer, row in zip(answers, real, strict=True)]
    return {**result, "real_held_out": round(100 * sum(right) / len(right), 1), "drawn": count}


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the data here, and stop")
    bench.parser.add_argument("--model", help="trained by recipes/emoji.yaml")
    bench.parser.add_argument("--classifier", help="trained by recipes/emoji-classify.yaml")
    bench.parser.add_argument("--folder", type=Path, default=Path("recipes/emoji"), help="of --write")
    bench.parser.add_argument("--count", type=int, default=300, help="names to draw of each part")
    given = bench.parse()
    if given.write:
        write(given.write)
    elif given.model and given.classifier:
        bench.reads("emoji_twitter: names that were trained on, and held-out ones")
        bench.runs_in({"model and classifier": "that of their folders"})
        bench.finish(measure(given.model, given.classifier, given.folder, given.count))
    else:
        bench.parser.error("give --write, or --model and --classifier")


if __name__ == "__main__":
    main()
