"""`clearhead prove`: a table for people, JSON for programs, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.train import verify_resume as module
from clearhead.train.verify_resume import InjectedKill, ProofCheck, ResumeProof
from tests.train.tiny import texts, values


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # such small models are slower in two
    torch.set_num_threads(1)
    Path("r.yaml").write_text(yaml.safe_dump(values()))
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(app, ["prove", *map(str, args)])


def test_two_kills(here):
    done = run("r.yaml", "--kills", 2, "--steps", 8, "--json", "--seed", 5)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["holds"] and len(told["kills"]) == 2
    assert done.stderr.count("killed while ") == 2
    assert not (here / "runs").exists(), "nothing is left behind"


@pytest.fixture
def proofs(here, monkeypatch):
    """What a proof finds is given, so that both ends are seen."""

    def give(difference: str | None):
        kill = InjectedKill("saving", 7, 5)

        def prove(recipe, base, folder, *, kills, seed, on_progress):
            on_progress("training once through")
            on_progress(kill)
            return ResumeProof([kill], 1, [ProofCheck("weights", 12, None), ProofCheck("losses", 40, difference)])

        monkeypatch.setattr(module, "prove", prove)

    return give


def test_a_proof_that_holds(proofs):
    proofs(None)
    done = run("r.yaml")
    assert done.exit_code == 0
    assert "1 kills, 40 steps" in done.stdout and "NO" not in done.stdout
    assert "killed while saving, after step 7; resumes from step 5" in done.stderr


def test_a_proof_that_does_not(proofs):
    proofs("step 3: 0.5 and 0.6")
    done = run("r.yaml")
    assert done.exit_code == 1
    assert "NO: step 3" in done.stdout
    assert json.loads(run("r.yaml", "--json").stdout)["holds"] is False


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["no.yaml"], "there is no recipe no.yaml"),
        (["r.yaml", "--set", "train.stesp=3"], "did you mean 'steps'?"),
        (["r.yaml", "--steps", "0"], "steps is 0"),
        (["r.yaml", "--set", "data.train.source=no.x"], "ended with exit code 1: train the recipe"),
    ],
)
def test_what_cannot_be_is_one_line(here, args, says):
    done = run(*args)
    assert done.exit_code == 2
    told = [line for line in done.stderr.splitlines() if line.startswith("clearhead: ")]
    assert len(told) == 1 and says in told[0]
