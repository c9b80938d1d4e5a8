"""Fine-tuning: a trained body gets a new head, learns, and its folder answers here and in transformers alike."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from clearhead import load
from clearhead.attention.multihead import AttentionCore
from clearhead.distributed import Distributed
from clearhead.hub import model_folder
from clearhead.hub.folder import open_folder
from clearhead.layers.dropout import Dropout
from clearhead.models import TransformerConfig
from clearhead.models.heads import SequenceHead
from clearhead.tasks import Classify, QuestionAnswering
from clearhead.text import tokenizer as tokenizer_module
from clearhead.text import train_tokenizer
from clearhead.train import make_recipe, prepare, train
from clearhead.train.run_data import read_part

ANIMALS, THINGS = ["dog", "cat", "cow", "pig"], ["tree", "street", "house", "car"]
FILL = ["the", "old", "red", "big", "small", "one", "sees", "under", "and", "with"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Data of every task, and a BERT of transformers to start from."""
    transformers = pytest.importorskip("transformers")
    here = tmp_path_factory.mktemp("tuning")
    draw = random.Random(0)

    def sentence(word):
        return [*draw.choices(FILL, k=draw.randint(1, 4)), word, *draw.choices(FILL, k=draw.randint(0, 3))]

    chosen = [draw.choice(ANIMALS + THINGS) for _ in range(120)]
    sentences = [sentence(word) for word in chosen]
    kinds = ["animal" if word in ANIMALS else "thing" for word in chosen]
    texts = [" ".join(words) for words in sentences]
    (here / "one.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{k}\n" for t, k in zip(texts, kinds, strict=True)))
    (here / "several.jsonl").write_text("".join(
        json.dumps({"text": t, "labels": "|".join([k, *(["red"] if "red" in t else [])])}) + "\n"
        for t, k in zip(texts, kinds, strict=True)
    ))  # fmt: skip
    (here / "number.csv").write_text("text,number\n" + "".join(f"{t},{1000.5 + 100 * len(t.split())}\n" for t in texts))
    (here / "pair.tsv").write_text("text\tsecond\tlabel\n" + "".join(
        f"{a}\t{b}\t{second}\n"  # it is the second text that decides
        for a, b, second in zip(texts, texts[1:] + texts[:1], kinds[1:] + kinds[:1], strict=True)
    ))  # fmt: skip
    (here / "tags.conll").write_text("\n".join(
        "".join(f"{w} {'B-ANIMAL' if w in ANIMALS else 'O'}\n" for w in words) for words in sentences
    ))  # fmt: skip
    (here / "read.jsonl").write_text("".join(
        json.dumps({"question": "which one ?", "context": " ".join(words), "answer": word}) + "\n"
        for words, word in zip(sentences, chosen, strict=True)
    ))  # fmt: skip
    tokenizer = train_tokenizer(here / "one.tsv", template="bert", vocab_size=120)
    config = transformers.BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=40,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(here / "start")
    tokenizer.save(here / "start")
    return here


PARTS = {
    "one": ("classify", {"file": "one.tsv", "text": "text", "label": "label"}, "accuracy"),
    "several": ("classify", {"file": "several.jsonl", "text": "text", "labels": "labels"}, "micro_f1"),
    "number": ("classify", {"file": "number.csv", "text": "text", "number": "number"}, "spearman"),
    "pair": ("pair", {"file": "pair.tsv", "text": "text", "second": "second", "label": "label"}, "accuracy"),
    "tag": ("tag", {"file": "tags.conll", "words": "1", "tags": "2"}, "f1"),
    "qa": ("qa", {"file": "read.jsonl", "question": "question", "context": "context", "answer": "answer"}, "f1"),
}

EPOCHS = {"several": 15, "pair": 15}


def recipe(kind, **changes):
    task, part, metric = PARTS[kind]
    model = {"base_model": "start", **changes.pop("model", {})}
    settings = {
        "epochs": 6, "batch_examples": 8, "dtype": "float32", "evaluate_every": 20, "save_every": 20, "metric": metric,
        "optimizer": {"lr": 3e-3}, "schedule": {"kind": "linear", "warmup": 5}, "keep": 1, **changes,
    }  # fmt: skip
    return make_recipe(
        {"task": task, "data": {"train": part, "validation_rows": 24, "max_len": 32}, "model": model, "train": settings}
    )


@pytest.fixture(scope="session")
def trained(folder):
    """Each kind trained once."""
    made = {}

    def get(kind):
        if kind not in made:
            run = prepare(recipe(kind, epochs=EPOCHS.get(kind, 6)), folder, folder / "runs" / kind)
            made[kind] = run, train(run, shown=False)
        return made[kind]

    return get


@pytest.mark.parametrize("kind", PARTS)
def test_it_learns(trained, kind):
    run, progress = trained(kind)
    least = {"one": 90, "several": 80, "number": 60, "pair": 80, "tag": 90, "qa": 80}[kind]
    assert progress.best > least
    assert run.settings.steps == EPOCHS.get(kind, 6) * 12 and progress.step == run.settings.steps


@pytest.mark.parametrize("kind", ["one", "several", "number", "pair"])
def test_transformers_gives_the_same_scores_of_texts(trained, kind):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    run, _ = trained(kind)
    path = run.folder / "model"
    theirs, tokenizer = AutoModelForSequenceClassification.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    texts, seconds = ["the old dog", "one red car sees"], ["a small cat", "the tree"]
    given = tokenizer(texts, *([seconds] if kind == "pair" else []), return_tensors="pt", padding=True)
    with torch.no_grad():
        logits = theirs(**given).logits
    ours = load(path).classify(texts, seconds if kind == "pair" else None)
    names = [theirs.config.id2label[i] for i in range(theirs.config.num_labels)]
    if kind == "number":
        assert [a.answer for a in ours] == pytest.approx(logits[:, 0].tolist(), rel=1e-5)
        assert theirs.config.problem_type == "regression"
        assert all(isinstance(a.answer, float) and 900 < a.answer < 2500 for a in ours), "in the scale of the rows"
        return
    shares = logits.sigmoid() if kind == "several" else logits.softmax(1)
    for answer, row in zip(ours, shares, strict=True):
        assert [answer.scores[name] for name in names] == pytest.approx(row.tolist(), abs=1e-5)
    if kind == "one":
        assert [a.answer for a in ours] == ["animal", "thing"]


def test_transformers_gives_the_same_tags(trained):
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    run, _ = trained("tag")
    path = run.folder / "model"
    theirs, tokenizer = AutoModelForTokenClassification.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    words = ["the", "old", "dog", "sees", "one", "car"]
    given = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        shares = theirs(**given).logits[0].softmax(1)
    firsts = [given.word_ids().index(i) for i in range(len(words))]
    answer = load(path).tag([words])[0]
    assert answer.tags == tuple(theirs.config.id2label[int(shares[i].argmax())] for i in firsts)
    assert answer.scores == pytest.approx([float(shares[i].max()) for i in firsts], abs=1e-5)
    assert [name.text for name in answer.entities] == ["dog"]
    assert load(path).tag("the old dog sees").entities[0].start == 8


def test_transformers_gives_the_same_span(trained):
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    run, _ = trained("qa")
    path = run.folder / "model"
    theirs, tokenizer = AutoModelForQuestionAnswering.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    context = "the old red cow sees one"
    given = tokenizer("which one ?", context, return_tensors="pt", return_offsets_mapping=True)
    offsets = given.pop("offset_mapping")[0]
    with torch.no_grad():
        out = theirs(**given)
    answer = load(path).qa("which one ?", context)
    assert answer.best is not None
    assert answer.text == "cow" == context[answer.best.start : answer.best.end]
    rows = [i for i, part in enumerate(given.sequence_ids(0)) if part == 1]
    best = max((out.start_logits[0, i] + out.end_logits[0, j], i, j) for i in rows for j in rows if i <= j)
    assert answer.best.score == pytest.approx(float(best[0]), abs=1e-4)
    assert (answer.best.start, answer.best.end) == (int(offsets[best[1], 0]), int(offsets[best[2], 1]))


def test_stopped_and_gone_on_to_the_same_bits(folder, tmp_path):
    whole, torn = (
        prepare(recipe("one", epochs=2, save_every=5), folder, tmp_path / name) for name in ("whole", "torn")
    )
    train(whole, shown=False)

    def stop(step, numbers):
        if step == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(torn, trackers=[stop], shown=False)
    train(prepare(recipe("one", epochs=2, save_every=5), folder, tmp_path / "torn"), shown=False)
    a, b = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "torn"))
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(("how", "still"), [("body", ("encoder.",)), (1, ("encoder.embedding.", "encoder.blocks.0."))])
def test_what_is_frozen_stays_as_it_was(folder, tmp_path, how, still):
    run = prepare(recipe("one", epochs=1, model={"freeze": how}), folder, tmp_path / "run")
    train(run, shown=False)
    before = dict(open_folder(folder / "start").model.named_parameters())
    after = dict(open_folder(tmp_path / "run" / "model").model.named_parameters())
    for name in after:
        if name in before:
            held = name.startswith(still)
            assert torch.equal(before[name], after[name]) == held or "pooler" in name, name


def test_recurrent_nets_learn_the_same_tasks(folder, tmp_path):
    for kind in ("one", "tag"):
        task, part, metric = PARTS[kind]
        made = make_recipe({
            "task": task, "data": {"train": part, "validation_rows": 24, "max_len": 32},
            "tokenizer": {"vocab_size": 120}, "model": {"kind": "gru", "width": 24, "hidden_size": 24, "dropout": 0.0},
            "train": {"epochs": 8, "batch_examples": 8, "dtype": "float32", "evaluate_every": 24, "save_every": 96,
                      "metric": metric, "optimizer": {"lr": 1e-2}, "schedule": {"kind": "linear", "warmup": 5}},
        })  # fmt: skip
        progress = train(prepare(made, folder, tmp_path / kind), shown=False)
        assert progress.best is not None and progress.best > 85
    assert load(tmp_path / "one" / "model").classify("the old dog").answer == "animal"


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ({"base_model": "nowhere"}, "nowhere"),
        ({"base_model": "package:no_such_package"}, "no package"),
        ({"width": 8}, "model.width"),
        ({"freeze": 9}, "has 2 layers"),
        ({"freeze": "all"}, "model.freeze"),
        ({"lora": 8}, "model.lora is 8: write it as"),
        ({"lora": {"ranks": 8}}, "did you mean 'rank'"),
        ({"lora": {"modules": ["querry"]}}, "no 'querry'"),
        ({"lora": {}, "freeze": 1}, "remove model.freeze"),
        ({"positions": "repeat"}, "set model.max_len too"),
        ({"max_len": 7}, "max_len is 7: it must be a whole number, at least"),
        ({"max_len": 500, "positions": "stretch"}, "choose repeat or interpolate"),
        ({"attention": {"kind": "longformer", "global_until": "[STOP]"}}, "'\\[STOP\\]', which is no token"),
        ({"attention": {"kind": "longformer", "windows": 4}}, "has no option windows"),
        ({"attention_dropout": 1}, "attention_dropout is 1: it must be a probability"),
        ({"dropout": "low"}, "dropout is 'low': it must be a number"),
        ({"hidden_dropout": 0.2}, "hidden_dropout is 0.2, but BERT has no such dropout"),
    ],
)
def test_a_start_that_cannot_be_is_told(folder, tmp_path, model, fault):
    with pytest.raises((ValueError, OSError), match=fault):
        prepare(recipe("one", model=model), folder, tmp_path / "run")


def test_dropout_of_the_base_model_is_replaced(folder, tmp_path):
    model = {"dropout": 0.3, "attention_dropout": 0.0}
    run = prepare(recipe("one", steps=2, epochs=None, model=model), folder, tmp_path / "run")
    built = run.job(Distributed(), shown=False).model
    assert {m.p for m in built.modules() if isinstance(m, Dropout)} == {0.0, 0.3}, "0: BERT has none between the layers"
    assert {m.dropout for m in built.modules() if isinstance(m, AttentionCore)} == {0.0}
    train(run, shown=False)
    saved = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert (saved["hidden_dropout_prob"], saved["attention_probs_dropout_prob"]) == (0.3, 0.0)


def test_a_reader_of_long_texts(folder, tmp_path):
    """Positions are extended, attention is sparse, the question is global; the folder keeps all of it."""
    long = {"max_len": 600, "attention": {"kind": "longformer", "window": 8, "global_until": "[SEP]"}}
    made = recipe("qa", model=long, epochs=2, evaluate_every=24, save_every=24)
    made = replace(made, data=replace(made.data, max_len=600))
    train(prepare(made, folder, tmp_path / "run"), shown=False)
    model = load(tmp_path / "run" / "model")
    encoder = model.loaded.config.encoder
    assert isinstance(encoder, TransformerConfig)
    (method,) = encoder.attention
    assert method["global_until"] == model.tokenizer.id("[SEP]") and method["window"] == 8
    assert model.max_len == 600
    context = "the old dog . " * 100
    windows = QuestionAnswering.from_model(model.loaded).windows(["where is the cat"], [context])
    assert windows.layout.num_sequences == 1 and windows.layout.num_tokens > 300
    with model.look() as seen:
        assert model.qa("where is the cat", context).spans
    weights = seen["encoder.1"].head(0)
    end = windows.ids.tolist().index(model.tokenizer.id("[SEP]"))
    assert int((weights[:end] > 0).sum(1).min()) == len(weights)  # the question reads all
    assert int((weights[-1] > 0).sum()) == end + 5  # the last token: the question, four neighbours and itself


@pytest.mark.parametrize("model", [{}, {"lora": {"rank": 2}}, {"pool": "mean"}])
def test_the_base_model_is_opened_once(folder, tmp_path, model, monkeypatch):
    """Config, tokenizer and weight headers are read, and the folder is verified, by one opening."""
    readers = {
        "verified": (model_folder, "verify_if_marked"),
        "config": (model_folder, "read_config"),
        "headers": (model_folder, "weight_headers"),
        "tokenizer": (tokenizer_module, "read_tokenizer_files"),
        "opened": (model_folder.ModelFolder, "open"),
    }
    counts = dict.fromkeys(readers, 0)

    def counted(what, read, source, *rest):
        counts[what] += source == folder / "start"
        return read(source, *rest)

    for what, (owner, name) in readers.items():
        monkeypatch.setattr(owner, name, partial(counted, what, getattr(owner, name)))
    run = prepare(recipe("one", epochs=1, model=model), folder, tmp_path / "run")
    train(run, shown=False)
    assert counts == dict.fromkeys(readers, 1)


def test_no_row_s_text_is_kept_with_the_model(trained):
    run, _ = trained("one")
    said = (run.folder / "model" / "clearhead.json").read_text() + (run.folder / "log.jsonl").read_text()
    assert "sees" not in said and "the old" not in said
    assert json.loads((run.folder / "labels.json").read_text())["names"] == ["animal", "thing"]


def test_narrow_matrices_learn_and_open_in_peft(folder, tmp_path):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    narrow = {"lora": {"rank": 4, "alpha": 8, "modules": ["query", "value", "up"]}}
    run = prepare(recipe("one", epochs=10, model=narrow, optimizer={"lr": 1e-2}), folder, tmp_path / "run")
    model = run.job(Distributed()).model
    learnt = {name for name, p in model.named_parameters() if p.requires_grad}
    assert all(name.startswith("head.") or ".parametrizations.weight.0." in name for name in learnt)
    progress = train(run, shown=False)
    assert progress.best is not None and progress.best > 75
    before = dict(open_folder(folder / "start").model.named_parameters())
    after = dict(open_folder(tmp_path / "run" / "model").model.named_parameters())
    changed = {name for name in before if "pooler" not in name and not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if name.endswith(("query.weight", "value.weight", "up.weight"))}
    base = AutoModelForSequenceClassification.from_pretrained(folder / "start", num_labels=2)
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "run" / "adapter").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    texts = ["the old dog", "one red car sees"]
    with torch.no_grad():
        shares = theirs(**tokenizer(texts, return_tensors="pt", padding=True)).logits.softmax(1)
    ours = load(tmp_path / "run" / "model").classify(texts)
    for answer, row in zip(ours, shares, strict=True):
        assert [answer.scores[name] for name in ("animal", "thing")] == pytest.approx(row.tolist(), abs=1e-5)


def test_narrow_matrices_go_on_to_the_same_bits(folder, tmp_path):
    made = recipe("one", epochs=1, save_every=3, model={"lora": {"rank": 2}})
    train(prepare(made, folder, tmp_path / "whole"), shown=False)

    def stop(step, numbers):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(prepare(made, folder, tmp_path / "torn"), trackers=[stop], shown=False)
    train(prepare(made, folder, tmp_path / "torn"), shown=False)
    for file in ("model/model.safetensors", "adapter/adapter_model.safetensors"):
        a, b = (load_file(tmp_path / name / file) for name in ("whole", "torn"))
        assert all(torch.equal(a[name], b[name]) for name in a)


def pooled_by_hand(how, states, layout, head):
    """One vector for each sequence, with a loop."""
    found = []
    for i, size in enumerate(layout.host_lengths):
        x = states[sum(layout.host_lengths[:i]) :][:size]
        if how == "attention":
            weights = (x @ head.attention.weight[0] / x.shape[1] ** 0.5).softmax(0)
            found.append(weights @ x)
        else:
            found.append({"first": x[0], "mean": x.mean(0), "max": x.max(0).values}[how])
    return torch.stack(found)


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("how", ["first", "mean", "max", "attention"])
def test_texts_are_pooled_as_asked(folder, how, start, tmp_path):
    """A pooled head learns, is saved and opened, and is what a loop over its tokens computes."""
    made = recipe("one", model={"pool": how})
    if not start:
        small = {"size": "tiny", "num_layers": 1, "pool": how}
        made = replace(made, model=small, tokenizer=replace(made.tokenizer, vocab_size=100))
    run = prepare(made, folder, tmp_path / "run")
    train(run, Distributed(), shown=False)
    opened = open_folder(tmp_path / "run" / "model")
    best = json.loads((tmp_path / "run" / "results.json").read_text())["curve"][-1]["valid_accuracy"]
    assert best > 90 or not start  # a body of fresh weights would take longer
    texts = ["the old dog", "one tree and a big car under"]
    assert isinstance(run.task, Classify)
    batch = run.task.collate(run.task.read([texts]), np.arange(2))
    head = opened.model.head
    assert isinstance(head, SequenceHead) and head.output is not None
    with torch.no_grad():
        states = opened.model.hidden_states(batch.ids, batch.layout)
        vectors = pooled_by_hand(how, states, batch.layout, head)
        if head.pooler is not None:  # BERT's own first token
            vectors = torch.tanh(head.pooler(vectors))
        torch.testing.assert_close(opened.model(batch.ids, batch.layout), head.output(vectors), atol=1e-5, rtol=1e-5)
    if start or how != "first":
        transformers = pytest.importorskip("transformers")
        body = transformers.AutoModel.from_pretrained(tmp_path / "run" / "model").eval()
        with torch.no_grad():
            theirs = body(batch.ids[: batch.layout.host_lengths[0]][None]).last_hidden_state[0]
        torch.testing.assert_close(states[: batch.layout.host_lengths[0]], theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "pool", "words"),
    [
        ("one", "middle", "model.pool is 'middle'"),
        ("tag", "mean", "labels the parts"),
        ("qa", "max", "labels the parts"),
    ],
)
def test_a_pooling_that_cannot_be_is_told(folder, kind, pool, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        prepare(recipe(kind, model={"pool": pool}), folder, tmp_path / "run")


@pytest.mark.parametrize("kind", list(PARTS))
def test_results_are_those_of_the_folder(folder, kind, tmp_path):
    """What a run says of its test part is what its model's folder is measured at afterwards."""
    made = recipe(kind)
    made = replace(made, data=replace(made.data, test=made.data.train), train=replace(made.train, epochs=2))
    run = prepare(made, folder, tmp_path / "run")
    train(run, Distributed(), shown=False)
    told = json.loads((tmp_path / "run" / "results.json").read_text())
    opened = open_folder(tmp_path / "run" / "model")
    kind_of_task: Any = type(run.task)
    scores = kind_of_task.from_model(opened).score(opened, read_part(made.data.train, folder))
    assert {name: told[name] for name in scores} == pytest.approx(scores, rel=1e-6)
    if kind == "number":
        assert told["rmse"] < 500 and told["loss"] == pytest.approx(told["rmse"] ** 2, rel=1e-3)
