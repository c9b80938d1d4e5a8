"""The proof: it holds for what is right, and fails for what is not."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from clearhead.models import build
from clearhead.train import prepare, train
from clearhead.train.checkpoint import Checkpoints, read_tensors, tensors_of
from clearhead.train.optimizer import make_optimizer
from clearhead.train.verify_resume import InjectedKill, ProofCheck, ResumeProof, _compare, prove, shortened
from tests.train.tiny import recipe


def test_three_kills(base):
    heard: list[InjectedKill | str] = []
    proof = prove(shortened(recipe(), 16), base, base, kills=3, seed=3, on_progress=heard.append)
    assert proof.holds
    assert len(proof.kills) == 3 and [event for event in heard if isinstance(event, InjectedKill)] == proof.kills
    for kill in proof.kills:
        assert 0 <= kill.resumed <= kill.step <= 16
    assert [(check.what, check.difference) for check in proof.checks] == [
        (what, None) for what in ("weights", "optimizer", "sample order", "losses", "full log", "final model")
    ]
    assert all(check.count > 0 for check in proof.checks)
    assert proof.checks[2].count == proof.checks[3].count == 16


@pytest.fixture(scope="module")
def two(prepared, tmp_path_factory):
    """One run twice."""
    base = tmp_path_factory.mktemp("two")
    for name in ("a.x", "a.y"):
        shutil.copy(prepared / name, base)
    run = prepare(recipe(steps=4), base, base / "whole")
    train(run, shown=False)
    return run, base


def found(two, tmp_path, change) -> dict[str, str | None]:
    run, base = two
    torn = shutil.copytree(base / "whole", tmp_path / "torn")
    change(torn)
    return {check.what: check.difference for check in _compare(run, base / "whole", torn)}


def test_a_copy_is_equal(two, tmp_path):
    assert set(found(two, tmp_path, lambda torn: None).values()) == {None}


def test_times_may_differ(two, tmp_path):
    def change(torn):
        log = [json.loads(line) for line in (torn / "log.jsonl").read_text().splitlines()]
        log = [{**r, "seconds": 9.0, "tokens_per_second": 1.0} if "loss" in r else r for r in log]
        (torn / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in log))

    assert set(found(two, tmp_path, change).values()) == {None}


@pytest.mark.parametrize(
    ("key", "what"), [("loss", "losses"), ("norm", "losses"), ("examples", "sample order"), ("epoch", "sample order")]
)
def test_a_number_of_the_log_that_differs_is_found(two, tmp_path, key, what):
    def change(torn):
        log = [json.loads(line) for line in (torn / "log.jsonl").read_text().splitlines()]
        log[2][key] += 1
        (torn / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in log))

    differences = found(two, tmp_path, change)
    told = differences[what]
    assert told is not None and told.startswith("step 3: ")
    assert {name for name, difference in differences.items() if difference} == {what, "full log"}


def test_a_record_that_is_missing_or_doubled_is_found(two, tmp_path):
    for i, edit in enumerate((lambda lines: lines[:-1], lambda lines: [*lines, lines[-1]])):

        def change(torn, edit=edit):
            path = torn / "log.jsonl"
            path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))

        (tmp_path / str(i)).mkdir()
        assert found(two, tmp_path / str(i), change)["full log"] is not None


@pytest.mark.parametrize("what", ["weights", "optimizer"])
def test_one_bit_of_one_tensor_is_found(two, tmp_path, what):
    run, _ = two

    def change(torn):
        model = build(run.config)
        optimizer = make_optimizer(model, run.recipe.train.optimizer)
        checkpoints = Checkpoints(torn / "checkpoints", 1)
        newest = checkpoints.newest()
        assert newest is not None
        progress = checkpoints.restore(newest, model, optimizer)
        tensors = tensors_of(model, optimizer)
        name = next(
            n for n in tensors if n.startswith("model" if what == "weights" else "optimizer") and tensors[n].dim()
        )
        tensors[name].view(-1)[0].view(torch.int32).bitwise_xor_(1)
        checkpoints.save(progress, model, optimizer)
        newest = checkpoints.newest()
        assert newest is not None
        read_tensors(newest, tensors)

    differences = found(two, tmp_path, change)
    assert {name for name, difference in differences.items() if difference} == {what}


def test_one_byte_of_the_final_model_is_found(two, tmp_path):
    def change(torn):
        path = torn / "model" / "model.safetensors"
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    differences = found(two, tmp_path, change)
    assert {name for name, difference in differences.items() if difference} == {"final model"}


def test_a_proof_holds_if_nothing_differs():
    same, other = ProofCheck("weights", 3, None), ProofCheck("losses", 3, "step 2")
    assert ResumeProof([], 1, [same]).holds
    assert not ResumeProof([], 1, [same, other]).holds


def test_a_run_that_fails_by_itself_is_told(base):
    broken = recipe(optimizer={"lr": 1e30}, steps=20)
    with pytest.raises(ValueError, match="ended with exit code 1: train the recipe"):
        prove(broken, base, base, kills=1, seed=1)


def test_a_recipe_is_shortened_with_checkpoints_and_evaluations_on_the_way():
    settings = shortened(recipe(steps=1000, patience=2), 40).train
    assert (settings.steps, settings.save_every, settings.evaluate_every, settings.patience) == (40, 5, 10, None)
    assert shortened(recipe(), 3).train.save_every == 1
