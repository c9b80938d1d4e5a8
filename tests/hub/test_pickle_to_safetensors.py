"""`clearhead convert`: what a pickle holds comes out the same, and what a pickle does is not done."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
import typer
from safetensors import safe_open
from safetensors.torch import load_file
from typer.testing import CliRunner

from clearhead.cli.convert import convert as command
from clearhead.files import read_config, sha256, stale_temporaries, verify_if_marked, weight_files
from clearhead.hub.pickle_to_safetensors import child, convert_pickles
from tests.files.hostile import CONFIG, TOKENIZER, Harm, _zip_bomb, weights

app = typer.Typer()
app.command()(command)
run = CliRunner().invoke


@pytest.fixture
def in_process(monkeypatch):
    """The child's work done here, which spares a fresh interpreter a trial; the real child has tests of its own."""

    def fake(args, *, input, **_):
        out, before = io.StringIO(), (sys.stdin, sys.stdout)
        sys.stdin, sys.stdout = io.StringIO(input), out
        try:
            child()
        finally:
            sys.stdin, sys.stdout = before
        return subprocess.CompletedProcess(args, 0, out.getvalue(), "")

    monkeypatch.setattr(subprocess, "run", fake)


def old_folder(path: Path, state=None, *, legacy: bool = False, **files: bytes) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    if state is not None:
        torch.save(state, path / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    for name, data in files.items():
        (path / name.replace("__", ".")).write_bytes(data)
    return path


def state_dict() -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in weights().items()}


def same(found: dict[str, torch.Tensor], due: dict[str, torch.Tensor]) -> bool:
    return found.keys() == due.keys() and all(
        found[n].dtype == due[n].dtype and found[n].shape == due[n].shape
        and found[n].contiguous().view(-1).view(torch.uint8).equal(due[n].detach().contiguous().view(-1).view(torch.uint8))
        for n in due
    )  # fmt: skip


# What comes out


@pytest.mark.parametrize("legacy", [False, True])
def test_the_whole_way_in_a_child(tmp_path, legacy):
    state = state_dict()
    old = old_folder(
        tmp_path / "old",
        state,
        legacy=legacy,
        vocab__txt=b"a\n",
        training_args__bin=b"x",
        model__py=b"x",
        LICENSE=b"mine",
    )
    (old / "onnx").mkdir()
    done = convert_pickles(old, tmp_path / "new")
    new = tmp_path / "new"
    assert same(load_file(new / "model.safetensors"), state)
    assert done.tensors == len(state)
    assert done.bytes == sum(t.nbytes for t in state.values())
    assert done.left == ["model.py", "onnx/", "training_args.bin"]
    assert done.files == sorted(p.name for p in new.iterdir())
    assert done.files == [
        "LICENSE",
        "clearhead.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "vocab.txt",
    ]
    assert json.loads((new / "config.json").read_text()) == CONFIG | {"clearhead": {"manifest": "clearhead.json"}}
    assert (new / "tokenizer.json").read_bytes() == (old / "tokenizer.json").read_bytes()
    manifest = verify_if_marked(new)
    assert manifest is not None
    assert (
        manifest.metadata["provenance"]["converted_from"]
        == {"pytorch_model.bin": sha256(old / "pytorch_model.bin")}
        == done.sha256
    )
    assert str(tmp_path) not in (new / "clearhead.json").read_text()
    assert (new / "model.safetensors").stat().st_mode & 0o777 == (new / "config.json").stat().st_mode & 0o777


def test_transformers_opens_it(tmp_path, in_process):
    transformers = pytest.importorskip("transformers")
    convert_pickles(old_folder(tmp_path / "old", state_dict()), tmp_path / "new")
    _, report = transformers.AutoModel.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]


@pytest.mark.parametrize("seed", range(20))
def test_random_state_dicts(tmp_path, in_process, seed):
    torch.manual_seed(seed)
    draw = lambda *choices: choices[int(torch.randint(len(choices), ()))]  # noqa: E731
    state: dict[str, torch.Tensor] = OrderedDict()
    big = torch.randn(40, 30)
    for i in range(draw(1, 5, 30)):
        dtype = draw(
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.uint8,
            torch.bool,
            torch.complex64,
            torch.float8_e4m3fn,
        )
        shape = [draw(0, 1, 2, 7) for _ in range(draw(0, 1, 2, 3))]
        plain = torch.randn(shape).to(dtype)
        state[f"layer.{i}.é {draw('weight', 'bias')}"] = draw(
            plain, plain, torch.nn.Parameter(torch.randn(shape)), big[3:7], big.T, big[::2, ::3], big[5], torch.randn(5, dtype=torch.complex64).conj(), torch.arange(5).expand(1, -1)
        )  # fmt: skip
    legacy = bool(seed % 2) and not any(
        "float8" in str(t.dtype) for t in state.values()
    )  # which that format cannot hold
    done = convert_pickles(old_folder(tmp_path / "old", state, legacy=legacy), tmp_path / "new")
    found = load_file(tmp_path / "new" / "model.safetensors")
    assert same(
        {**found, **{name: found[kept] for name, kept in done.tied.items()}},
        {n: t.resolve_conj() for n, t in state.items()},
    )


def test_tied_tensors_are_kept_once_and_named(tmp_path, in_process):
    table = torch.randn(10, 4)
    state = {
        "wte.weight": table,
        "h.bias": torch.zeros(3),
        "lm_head.weight": table,
        "again": table,
        "view": table[:5],
        "turned": table.T,
        "flat": table.view(-1),
    }
    done = convert_pickles(old_folder(tmp_path / "old", state), tmp_path / "new")
    assert done.tied == {"lm_head.weight": "wte.weight", "again": "wte.weight"}
    found = load_file(tmp_path / "new" / "model.safetensors")
    assert same(found, {n: state[n] for n in ("wte.weight", "h.bias", "view", "turned", "flat")})
    with safe_open(tmp_path / "new" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "lm_head.weight": "wte.weight", "again": "wte.weight"}
    manifest = verify_if_marked(tmp_path / "new")
    assert manifest is not None and manifest.metadata["provenance"]["tied"] == done.tied


def test_a_tensor_and_its_conjugate_are_not_the_same(tmp_path, in_process):
    a = torch.randn(4, dtype=torch.complex64)
    done = convert_pickles(old_folder(tmp_path / "old", {"a": a, "b": a.conj()}), tmp_path / "new")
    found = load_file(tmp_path / "new" / "model.safetensors")
    assert done.tied == {} and torch.equal(found["b"], a.conj())


def shards(path: Path, *parts: dict[str, torch.Tensor], **wrong: str) -> Path:
    folder = old_folder(path)
    weight_map = {}
    for i, part in enumerate(parts, 1):
        file = f"pytorch_model-{i:05d}-of-{len(parts):05d}.bin"
        torch.save(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map | wrong}))
    return folder


def test_sharded_pickles(tmp_path, in_process):
    state = state_dict()
    names = list(state)
    old = shards(tmp_path / "old", {n: state[n] for n in names[:9]}, {n: state[n] for n in names[9:]})
    done = convert_pickles(old, tmp_path / "new")
    assert same(load_file(tmp_path / "new" / "model.safetensors"), state)
    assert list(done.sha256) == ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    assert done.left == ["pytorch_model.bin.index.json"]


def test_large_weights_are_sharded(tmp_path, in_process):
    state = state_dict()
    convert_pickles(old_folder(tmp_path / "old", state), tmp_path / "new", max_shard=4000)
    files = weight_files(tmp_path / "new")
    assert len(set(files.values())) > 3
    assert same({n: load_file(tmp_path / "new" / f)[n] for n, f in files.items()}, state)
    transformers = pytest.importorskip("transformers")
    _, report = transformers.AutoModel.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]


def test_a_view_counts_as_large_as_it_is(tmp_path, in_process):
    convert_pickles(
        old_folder(tmp_path / "old", {"a": torch.zeros(10_000)[:10], "b": torch.ones(10)}),
        tmp_path / "new",
        max_shard=1000,
    )
    assert set(weight_files(tmp_path / "new").values()) == {"model.safetensors"}


def rxnmapper(tmp_path: Path) -> Path | None:
    """The folder of the ALBERT that rxnmapper ships, from where it may be: a pickle of 2020, in the old format."""
    below = Path("models/transformers/albert_heads_8_uspto_all_1310k")
    if "CLEARHEAD_RXNMAPPER" in os.environ:
        return Path(os.environ["CLEARHEAD_RXNMAPPER"])
    spec = importlib.util.find_spec("rxnmapper")
    if spec and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / below
    for wheel in Path("/tmp/dl").glob("rxnmapper-*.whl"):
        zipfile.ZipFile(wheel).extractall(tmp_path / "wheel")
        return tmp_path / "wheel" / "rxnmapper" / below
    return None


def test_a_real_albert(tmp_path):
    old = rxnmapper(tmp_path)
    if old is None:
        pytest.skip("rxnmapper is not here: set CLEARHEAD_RXNMAPPER to its model folder")
    done = convert_pickles(old, tmp_path / "new")
    due = torch.load(old / "pytorch_model.bin", weights_only=True, map_location="cpu")  # it was saved from a GPU
    found = load_file(tmp_path / "new" / "model.safetensors")
    assert done.tied == {
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }
    assert same(found, {n: t for n, t in due.items() if n not in done.tied})
    assert done.left == ["training_args.bin"]
    config = read_config(tmp_path / "new")
    assert config.pop("clearhead") and config == read_config(old)
    assert verify_if_marked(tmp_path / "new")
    transformers = pytest.importorskip("transformers")
    model, report = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not report["missing_keys"]
    assert torch.equal(model.predictions.decoder.weight, due["predictions.decoder.weight"])


# What is refused


def refused(old: Path, match: str) -> None:
    """One line that says why; nothing is left beside the old folder; nothing was run."""
    before = sorted(p.name for p in old.parent.iterdir())
    with pytest.raises(ValueError, match=match) as error:
        convert_pickles(old, old.parent / "new")
    assert "\n" not in str(error.value) and len(str(error.value)) < 700
    assert sorted(p.name for p in old.parent.iterdir()) == before
    assert not Path("harm-was-done").exists()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a pickle runs would leave its mark here
    return tmp_path


def test_a_pickle_that_runs_code(here):
    """In the real child: os.system from a pickle is named, and not run."""
    refused(old_folder(here / "old", {"weight": Harm()}), r"pytorch_model.bin is refused.*posix.system.*safetensors")


HARMS = {
    "legacy": lambda: _saved({"weight": Harm()}, _use_new_zipfile_serialization=False),
    "bare pickle": lambda: pickle.dumps({"weight": Harm()}, protocol=2),
    "protocol 4": lambda: pickle.dumps({"weight": Harm()}, protocol=4),
    "hidden in a list": lambda: _saved({"a": torch.zeros(2), "b": [Harm()]}),
    "builtins.eval": lambda: b"\x80\x02cbuiltins\neval\nX\x1e\x00\x00\x00open('harm-was-done','w').close\x85R.",
    "TorchScript": lambda: _scripted(),
}


def _saved(value, **options) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def _scripted() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/constants.pkl", b"\x80\x02).")
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
        archive.writestr("archive/version", b"3\n")
    return out.getvalue()


@pytest.mark.parametrize("kind", HARMS)
@pytest.mark.filterwarnings("ignore")
def test_other_pickles_that_run_code(here, in_process, kind):
    refused(old_folder(here / "old", pytorch_model__bin=HARMS[kind]()), "pytorch_model.bin is refused")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"state_dict": {"a": torch.zeros(1)}}, "'state_dict': dict, but only tensors are allowed"),
        ({"a": 1.0}, "'a': float"),
        ({"a": "text"}, "'a': str"),
        ({1: torch.zeros(1)}, "holds 1: Tensor"),
        ([torch.zeros(1)], "holds list"),
        (torch.zeros(1), "holds Tensor"),
        ({}, "no tensors"),
        ({"a": torch.zeros(3, 3).to_sparse()}, "torch.sparse_coo"),
        ({"a": torch.zeros(3, dtype=torch.complex128)}, "complex128, which safetensors cannot store"),
        ({"a": torch.zeros(3, device="meta")}, "safetensors cannot"),
        ({"a": torch.zeros(1).expand(1_000_000_000)}, "far more than the size of the file"),
        ({"": torch.zeros(1)}, "has a name of 0 characters"),
        ({"a" * 600: torch.zeros(1)}, "has a name of 600"),
    ],
)
def test_what_is_no_state_dict(here, in_process, state, why):
    refused(old_folder(here / "old", state), why)


@pytest.mark.filterwarnings("ignore")
def test_broken_pickles(here, in_process):
    good = _saved(state_dict())
    legacy = _saved(state_dict(), _use_new_zipfile_serialization=False)
    broken = {
        "empty": b"", "noise": b"hello" * 99, "cut": good[:-100], "half": good[: len(good) // 2], "zip magic": b"PK\3\4",
        "legacy cut": legacy[:-10], "legacy half": legacy[: len(legacy) // 2], "bomb": _zip_bomb(), "a safetensors file": b"\x08\0\0\0\0\0\0\0{}      ",
    }  # fmt: skip
    for name, data in broken.items():
        refused(old_folder(here / name, pytorch_model__bin=data), r"pytorch_model.bin is refused, because torch cannot")


def test_archives_that_unpack_to_more_than_they_are(here, in_process):
    """In a compressed archive torch would map the compressed bytes as numbers."""
    good, packed = io.BytesIO(_saved(state_dict())), io.BytesIO()
    with zipfile.ZipFile(good) as archive, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as smaller:
        for record in archive.infolist():
            smaller.writestr(record.filename, archive.read(record))
    refused(old_folder(here / "packed", pytorch_model__bin=packed.getvalue()), "compressed archive")
    with zipfile.ZipFile(good, "a") as archive:
        for i in range(1000):
            again = copy.copy(archive.infolist()[5])
            again.filename = f"archive/data/{i}00"
            archive.filelist.append(again)
        archive._didModify = True  # pyright: ignore[reportAttributeAccessIssue]
    refused(old_folder(here / "overlaid", pytorch_model__bin=good.getvalue()), "larger than the file")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("legacy", [False, True])
def test_changed_bytes_never_do_harm(here, in_process, legacy):
    """A changed byte of a pickle gives other numbers, or a refusal; never another error, never a mark."""
    good = _saved({"a": torch.arange(6.0), "b": torch.ones(2, 2)}, _use_new_zipfile_serialization=not legacy)
    draw = torch.Generator().manual_seed(0)
    for i in range(100):
        at = int(torch.randint(len(good), (), generator=draw))
        data = good[:at] + bytes([good[at] ^ (1 << i % 8)]) + good[at + 1 :]
        old = old_folder(here / f"old{i}", pytorch_model__bin=data)
        try:
            convert_pickles(old, here / f"new{i}")
        except ValueError:
            assert not (here / f"new{i}").exists()
        else:
            assert verify_if_marked(here / f"new{i}")
    assert stale_temporaries(here) == []


def test_names_in_an_index(here, in_process):
    one = {"a": torch.zeros(1)}
    for i, (name, why) in enumerate([
        ("../x.bin", "plain name"), ("/etc/passwd", "plain name"), ("x.safetensors", "plain name"), ("x\0.bin", "NUL"), ("no.bin", "missing"),
    ]):  # fmt: skip
        refused(shards(here / f"old{i}", one, b=name), why)
    refused(shards(here / "lacks", one, b="pytorch_model-00001-of-00001.bin"), "disagree about 'b'")
    refused(
        shards(here / "twice", one | {"b": torch.ones(1)}, one | {"c": torch.ones(1)}),
        "'a', which another file also holds",
    )
    link = shards(here / "link", one, b="x.bin")
    (link / "x.bin").symlink_to("/etc/passwd")
    refused(link, "leads out of the folder")


def test_folders_that_cannot_be_converted(here, in_process):
    state = state_dict()
    refused(here / "nowhere", "config.json' is missing")
    refused(old_folder(here / "none"), r"no weights to convert: looked for pytorch_model.bin")
    refused(old_folder(here / "done", state, model__safetensors=b""), "already")
    refused(old_folder(here / "code", state, config__json=b'{"auto_map": {"AutoModel": "x.Y"}}'), "auto_map")
    refused(old_folder(here / "config", state, config__json=b"{"), r"config.json is not valid JSON")
    old = old_folder(here / "link", state)
    (old / "vocab.txt").symlink_to("/etc/passwd")
    refused(old, "leads out of the folder")
    (here / "new").mkdir()
    (here / "new" / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        convert_pickles(old_folder(here / "good", state), here / "new")
    assert os.listdir(here / "new") == ["mine"]


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was terminated by SIGKILL: it ran out of memory"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was terminated by SIGSEGV: the file may be corrupt"),
        ("sys.exit('no such thing')", "failed: no such thing"),
        ("os._exit(3)", "failed: no error message"),
    ],
)
def test_a_child_that_dies_is_reported(here, monkeypatch, ended, says):
    real = subprocess.run
    monkeypatch.setattr(
        subprocess, "run",
        lambda args, **options: real([sys.executable, "-c", f"import os, signal, sys; {ended}"], **options),
    )  # fmt: skip
    refused(old_folder(here / "old", state_dict()), says)


def test_a_disk_that_is_full(here, in_process, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("clearhead.hub.weight_files.save_file", full)
    refused(old_folder(here / "old", state_dict()), "No space left on device")


def test_ctrl_c(here, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupted)
    old = old_folder(here / "old", state_dict())
    with pytest.raises(KeyboardInterrupt):
        convert_pickles(old, here / "new")
    assert os.listdir(here) == ["old"]


# The command


def test_the_command(here, in_process):
    table = torch.randn(10, 4)
    old = old_folder(here / "old", {"a": table, "b\x1b[31m": table}, training_args__bin=b"x")
    done = run(app, [str(old), "--out", "new"])
    assert done.exit_code == 0, done.output
    assert "new: 1 tensors, 0.0 MB" in done.stdout
    assert "tied weights, stored once: 'b\\x1b[31m' is a" in done.stdout
    assert "not copied: training_args.bin" in done.stdout
    done = run(app, [str(old), "--out", "newer", "--json"])
    summary = json.loads(done.stdout)
    assert summary["ok"] and summary["out"] == "newer" and summary["tied"] == {"b\x1b[31m": "a"}


def test_the_command_refuses_on_one_line(here, in_process):
    old = old_folder(here / "old", {"a": Harm()})
    done = run(app, [str(old), "--out", "new"])
    assert done.exit_code == 2
    assert re.fullmatch(r"clearhead convert: pytorch_model.bin is refused.*posix.system.*\n", done.stderr)
    assert done.stdout == ""
    done = run(app, [str(old), "--out", "new", "--json"])
    assert done.exit_code == 2
    assert "posix.system" in json.loads(done.stdout)["error"]
    assert os.listdir(here) == ["old"]
    (here / "new").mkdir()
    (here / "new" / "x").touch()
    done = run(app, [str(old), "--out", "new"])
    assert done.exit_code == 2 and "is not empty" in done.stderr


def test_the_real_command_is_ended_by_a_signal_without_a_trace(here):
    """Ctrl-C while the child reads: both end, nothing is left."""
    old = old_folder(here / "old", state_dict())
    heard = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background ignores it
    )
    code = f"{heard}; import typer; from clearhead.cli.convert import convert; typer.run(convert)"
    running = subprocess.Popen(
        [sys.executable, "-c", code, str(old), "--out", str(here / "new")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while running.poll() is None and not stale_temporaries(here):
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "Traceback" not in said
    assert os.listdir(here) == ["old"]
