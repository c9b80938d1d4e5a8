"""The record of an audit: what ran, on which data, with which seed; no text of a user's own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from clearhead.audit.audit_record import MAX_EXAMPLES, audit_record, write_record
from clearhead.audit.card_facts import audit_facts
from clearhead.hub.folder import LoadedModel
from tests.audit.made_up_results import RESULT, head, heads_on

LOADED = cast("LoadedModel", SimpleNamespace(architecture="Tiny", model=torch.nn.Linear(3, 2)))


def record(*results, **options) -> dict[str, Any]:
    made = audit_record("runs/a/model", LOADED, results, command="clearhead audit", seconds=1.26, **options)
    return json.loads(json.dumps(made))


def test_the_record_names_model_data_seed_and_versions(tmp_path):
    found = record(RESULT, judge="runs/judge/model", left_out=["winomt is left out"])
    assert found["model"] == "runs/a/model" and found["architecture"] == "Tiny" and found["parameters"] == 8
    assert found["judge"] == "runs/judge/model" and found["left_out"] == ["winomt is left out"]
    assert found["seconds"] == 1.3 and found["versions"]["torch"] == torch.__version__
    assert found["command"] == "clearhead audit" and found["heads"] is None
    (suite,) = found["suites"]
    assert (suite["suite"], suite["seed"], suite["version"], suite["sha256"]) == ("crows_pairs", 3, "7", "ab" * 32)
    assert suite["flagged"] == ["flagged", "exact"] and suite["notes"] == ["a note"]
    assert suite["estimates"][0] == {
        "name": "flagged", "value": 71.0, "low": 64.0, "high": 78.0, "ideal": 50.0, "count": 140, "p_value": 0.0004,
    }  # fmt: skip
    path = write_record(found, tmp_path)
    assert path.name == "audit.json" and json.loads(path.read_text()) == found


def test_the_largest_examples_are_kept():
    examples = record(RESULT)["suites"][0]["examples"]
    assert len(examples) == MAX_EXAMPLES < len(RESULT.examples)
    assert examples[0] == {"texts": ["first 59", "second 59"], "effect": -59.0, "group": "age"}


@pytest.mark.parametrize("suite", ["crows_pairs", "counterfactual"])
def test_own_texts_are_not_in_the_record(suite):
    own = replace(RESULT, own_texts=True, suite=suite)
    heads = heads_on(list(RESULT.examples[:2]), [head("encoder.0", 0, [1.0, 2.0])])
    found = record(own, heads=heads if suite == "crows_pairs" else None)
    assert not re.search(r"second \d", json.dumps(found))
    assert found["suites"][0]["examples"][0] == {"texts": None, "effect": -59.0, "group": "age"}
    if suite == "crows_pairs":
        assert found["heads"]["pairs"] == [{"texts": None, "effect": e.effect, "group": "age"} for e in heads.pairs]
        assert found["heads"]["heads"][0]["by_pair"] == [1.0, 2.0]


def test_heads_of_published_pairs_have_their_texts():
    heads = heads_on(list(RESULT.examples[:2]), [head("encoder.0", 0, [1.0, 2.0])])
    found = record(RESULT, heads=heads)["heads"]
    assert found["pairs"][1]["texts"] == ["first 1", "second 1"] and found["total"]["value"] == 2.5
    assert found["heads"][0]["layer"] == "encoder.0" and found["heads"][0]["change"]["value"] == 1.5


def test_a_model_card_reads_the_record():
    (suite,) = audit_facts(record(RESULT))["suites"]
    assert suite["suite"] == "crows_pairs" and len(suite["estimates"]) == 5 and "examples" not in suite
