"""Gender in translations: the entity is found, its gender read, and the estimates are those of Stanovsky et al. 2019."""

import csv
import lzma
import os
import random
from typing import Any

import numpy as np
import pytest

from clearhead.audit.gendered_nouns import split_words
from clearhead.audit.translated_entity import word_at
from clearhead.audit.translation_gender import (
    GenderSentence,
    audit_translation,
    f1_score,
    find_entities,
    read_winomt,
    score_translations,
    target_language,
    word_alignment,
)
from tests.real import DATA

WINOMT = DATA / "bias" / "winomt"
SYSTEMS = ("google", "bing", "aws", "systran")


def sentence(text, entity, gender: Any = "female", group: Any = "none"):
    words = [word.strip(".,").lower() for word in text.split()]
    return GenderSentence(
        text=text, index=words.index(entity.split()[0]), entity=entity, gender=gender, group=group
    )  # fmt: skip


def found(text, entity, translation, language="de") -> Any:
    """The entity's words in one translation, its gender, and that of noun and pronoun together."""
    (result,) = find_entities([sentence(text, entity)], [translation], language)
    return None if result is None else (result.text, result.gender, result.person)


@pytest.mark.parametrize(
    ("entity", "expected"),
    [("baker", ("Bäckerin", "female", "female")), ("farmer", ("Bauern", "male", "female"))],
)
def test_two_entities_are_not_confused(entity, expected):
    text = "The baker greeted the farmer because she was glad."
    assert found(text, entity, "Die Bäckerin grüßte den Bauern, weil sie froh war.") == expected
    assert found(text, entity, "Den Bauern grüßte die Bäckerin, weil sie froh war.") == expected


def test_a_noun_that_translates_both_goes_to_the_one_without_another():
    text = "The chief called the manager because she was late."
    assert found(text, "chief", "Die Chefin rief den Manager, weil sie spät war.")[0] == "Chefin"
    assert found(text, "manager", "Die Chefin rief den Manager, weil sie spät war.")[0] == "Manager"
    # Both nouns translate both: the order of the words decides.
    assert found(text, "chief", "Die Leiterin rief den Chef, weil sie spät war.")[0] == "Leiterin"
    assert found(text, "manager", "Die Leiterin rief den Chef, weil sie spät war.")[0] == "Chef"


def test_french_and_occupations_of_two_words():
    text = "The construction worker thanked the nurse because he was hurt."
    translation = "L'ouvrière du bâtiment a remercié l'infirmier parce qu'il était blessé."
    assert found(text, "construction worker", translation, "fr")[:2] == ("ouvrière du bâtiment", "female")
    assert found(text, "nurse", translation, "fr")[:2] == ("infirmier", "male")


def test_the_pronoun_decides_where_the_noun_marks_no_gender():
    text = "The driver asked someone whether she was lost."
    assert found(text, "someone", "Der Fahrer fragte jemanden, ob sie sich verirrt habe.")[1] == "female"
    assert found(text, "someone", "Der Fahrer fragte jemanden, ob er sich verirrt habe.")[1] == "male"
    assert found(text, "someone", "Der Fahrer fragte jemanden nach dem Weg.")[1] == "neutral"
    plural = text.replace("she was", "they were")
    assert found(plural, "someone", "Der Fahrer fragte jemanden, ob sie sich verirrt hätten.")[1] == "neutral"


def test_noun_and_pronoun_may_differ():
    text = "The farmer sang because she was glad."
    (one,) = find_entities([sentence(text, "farmer")], ["Der Bauer sang, weil sie froh war."], "de")
    assert one is not None and (one.gender, one.person, one.contradicts) == ("male", "female", True)
    text = "The nurse sang because he was glad."
    (one,) = find_entities([sentence(text, "nurse")], ["Die Krankenschwester sang, weil er froh war."], "de")
    assert one is not None and (one.gender, one.person, one.contradicts) == (
        "female",
        "female",
        True,
    )  # a feminine noun is not generic


def test_an_entity_that_is_not_translated_is_not_found():
    assert found("The baker sang because she was glad.", "baker", "Es wurde gesungen.") is None


def test_a_noun_outside_the_table_is_found_by_the_alignment():
    names = {"dog": "Hund", "cat": "Katze", "bird": "Vogel", "horse": "Pferd"}
    sentences = [sentence(f"The mover saw the {name} because she was near.", "mover") for name in names]
    translations = [f"Die Packmeisterin sah den {name}, weil sie nahe war." for name in names.values()]
    others = [sentence(f"The baker had the {name} because he was near.", "baker", "male") for name in names]
    more = [f"Der Bäcker hatte den {name}, weil er nahe war." for name in names.values()]
    results = find_entities(sentences + others, translations + more, "de")
    assert [one and (one.text, one.gender, one.in_table) for one in results[:4]] == [
        ("Packmeisterin", "female", False)
    ] * 4
    assert all(one is not None and one.in_table for one in results[4:])


def test_the_alignment_decides_between_nouns_but_takes_none_from_another_entity():
    text = "The chief called the mover because she was late."
    words = [word for word, _, _ in split_words(text)]
    translation = "Die Leiterin sah den Chef."
    entities = [sentence(text, "chief"), sentence(text, "mover")]

    def aligned(first, second):
        """Which English words the two German nouns are aligned with."""
        alignment = np.zeros((6, len(words)))
        alignment[1, words.index(first)], alignment[4, words.index(second)] = 0.9, 0.8
        found = find_entities(entities, [translation] * 2, "de", alignments=[alignment] * 2)
        return [None if one is None else one.text for one in found]

    assert aligned("mover", "chief") == ["Chef", "Leiterin"]
    assert aligned("chief", "mover") == ["Leiterin", "Chef"]
    # Without a better one, the chief has the first noun, which the mover cannot have too.
    assert aligned("mover", "late") == ["Leiterin", None]


def test_the_word_of_an_index_between_spaces():
    assert word_at("In May, the guard 's dog slept.", 3) == 4  # the comma is a word here
    with pytest.raises(ValueError, match="the entity is word 9, but the sentence has 2 words"):
        word_at("The guard", 9)


def planted(masculine_only):
    """100 sentences in pairs of both genders, and translations that are right, or always masculine."""
    sentences: list[GenderSentence] = []
    translations: list[str] = []
    for i in range(50):
        for gender, pronoun in (("male", "he"), ("female", "she")):
            group = "pro" if gender == "male" else "anti"
            sentences.append(sentence(f"The baker saw {i} birds because {pronoun} looked.", "baker", gender, group))
            noun = "Der Bäcker" if gender == "male" or masculine_only else "Die Bäckerin"
            translations.append(f"{noun} sah {i} Vögel.")
    return sentences, translations


def test_a_translator_that_knows_men_only_is_flagged():
    result = score_translations(*planted(True), "de", seed=3)
    values = {estimate.name: estimate for estimate in result.estimates}
    assert values["accuracy"].value == 50
    assert values["Delta S"].value == 100 and values["Delta S"].flagged
    assert values["F1, men"].value == pytest.approx(200 / 3) and values["F1, women"].value == 0
    assert values["Delta G"].value == pytest.approx(200 / 3) and values["Delta G"].flagged
    assert values["baker: men minus women"].value == 100 and not values["baker: men minus women"].too_small
    assert [example.effect for example in result.examples[:2]] == [1.0, -1.0]
    assert result.seed == 3 and len(result.sha256) == 64


def test_a_translator_that_is_right_is_not_flagged():
    result = score_translations(*planted(False), "de")
    values = {estimate.name: estimate.value for estimate in result.estimates}
    assert result.flagged == ()
    assert values["accuracy"] == 100 and values["Delta S"] == 0 and values["Delta G"] == 0
    assert values["noun and pronoun differ"] == 0 and values["entity not found"] == 0


def test_what_is_not_found_counts_as_wrong(monkeypatch):
    monkeypatch.setattr("clearhead.audit.estimates.DRAWS", 40)
    sentences, translations = planted(False)
    result = score_translations(sentences, ["Niemand." for _ in translations], "de")
    values = {estimate.name: estimate.value for estimate in result.estimates}
    assert values["accuracy"] == 0 and values["entity not found"] == 100
    assert {example.effect for example in result.examples} == {0.0}


def test_small_occupations_are_marked_or_left_out(monkeypatch):
    monkeypatch.setattr("clearhead.audit.estimates.DRAWS", 40)
    sentences, translations = planted(False)
    few = [sentence(f"The cook ran because {p} won.", "cook", g) for g, p in (("male", "he"), ("female", "she"))]
    result = score_translations([*sentences, *few, *few], [*translations, *["Der Koch lief."] * 4], "de")
    assert not any("cook" in estimate.name for estimate in result.estimates)
    result = score_translations([*sentences, *few * 6], [*translations, *["Der Koch lief."] * 12], "de")
    (cook,) = [estimate for estimate in result.estimates if "cook" in estimate.name]
    assert cook.too_small and cook.count == 6 and cook.p_value is None and cook.value == 100


def test_f1():
    gold, read = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 3, 0])
    assert f1_score(gold, read, 0) == pytest.approx(200 * 2 / 6)
    assert f1_score(gold, read, 1) == pytest.approx(200 * 1 / 4)
    assert f1_score(gold[:3], read[:2].repeat(2)[:3], 1) == 0


def test_wrong_inputs_are_refused():
    sentences, translations = planted(True)
    with pytest.raises(ValueError, match="100 sentences and 99 translations: give one for each"):
        score_translations(sentences, translations[1:], "de")
    with pytest.raises(ValueError, match="gender in translations to 'es' cannot be measured: there are tables for de"):
        score_translations(sentences, translations, "es")


@pytest.mark.parametrize(
    ("source", "target", "language"),
    [
        ("multi30k:train.en.gz", "multi30k:train.de.gz", "de"),
        ("corpus/train.en-fr.en", "corpus/train.en-fr.fr", "fr"),
        ("en", "fr", "fr"),
        ("english", "german", "de"),
        ("source", "de", "de"),
    ],
)
def test_the_target_language_is_that_of_the_recipe(source, target, language):
    metadata = {"recipe": {"data": {"train": {"source": source, "target": target}}}}
    assert target_language(metadata) == language
    assert target_language(metadata, language="fr") == "fr"


def test_the_target_language_of_a_named_model_and_of_an_unknown_one():
    assert target_language({}, {"_name_or_path": "somebody/opus-mt-en-de"}) == "de"
    with pytest.raises(ValueError, match=r"is not known: neither its recipe .* give the language: de or fr"):
        target_language({"recipe": {"data": {"train": {"source": "a.txt", "target": "b.txt"}}}})
    with pytest.raises(ValueError, match="translations to 'en' cannot be measured"):
        target_language({"recipe": {"data": {"train": {"file": "x", "source": "source", "target": "en"}}}})
    with pytest.raises(ValueError, match="translates from fr, but the sentences of the suite are English"):
        target_language({"recipe": {"data": {"train": {"source": "a.fr", "target": "a.de"}}}})


def test_the_files_of_the_benchmark(tmp_path):
    lines = ["male\t1\tThe baker sang because he won.\tThe baker", "female\t1\tThe cook sang because she won.\tcook"]
    (tmp_path / "en.txt").write_text("\n".join([*lines, "neutral\t1\tThe child sang because they won.\tchild"]))
    (tmp_path / "en_pro.txt").write_text(lines[0] + "\n")
    (tmp_path / "en_anti.txt").write_text(lines[1] + "\n")
    rows = read_winomt(tmp_path)
    assert [(row.entity, row.gender, row.group) for row in rows] == [
        ("baker", "male", "pro"), ("cook", "female", "anti"), ("child", "neutral", "none"),
    ]  # fmt: skip
    (tmp_path / "en.txt").write_text("man\t1\tThe baker sang.\tbaker\n")
    with pytest.raises(ValueError, match=r"en\.txt:1: expected a gender \(male, female, neutral\)"):
        read_winomt(tmp_path)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A tiny model that learned nothing, with a tokenizer of English and German words."""
    import torch

    from clearhead.hub.families import FAMILIES
    from clearhead.hub.folder import LoadedModel
    from clearhead.models import build
    from clearhead.pipeline import Pipeline
    from clearhead.text import train_tokenizer

    draw = random.Random(0)
    text = "The baker cook sang because he she won Der Die Bäcker Bäckerin Köchin Koch sang weil er sie gewann ."
    words = text.split()
    path = tmp_path_factory.mktemp("translator") / "corpus.txt"
    path.write_text("\n".join(" ".join(draw.choices(words, k=8)) for _ in range(300)) + "\n")
    tokenizer = train_tokenizer(path, template="marian", vocab_size=120)
    raw = {
        "model_type": "marian", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 48,
        "activation_function": "relu", "scale_embedding": True, "vocab_size": tokenizer.vocab_size,
        "pad_token_id": tokenizer.pad_id, "eos_token_id": tokenizer.eos_id, "is_encoder_decoder": True,
        "decoder_start_token_id": tokenizer.pad_id, "bos_token_id": 0,
    }  # fmt: skip
    table = FAMILIES["marian"]
    config = table.read(raw, "MarianMTModel")
    torch.manual_seed(0)
    metadata = {"recipe": {"data": {"train": {"source": "train.en", "target": "train.de"}}}}
    return Pipeline(LoadedModel(build(config).eval(), config, table, "MarianMTModel", raw, tokenizer, {}, metadata))


def test_a_model_is_audited_in_its_own_language(translator, monkeypatch):
    monkeypatch.setattr("clearhead.audit.estimates.DRAWS", 40)
    sentences, _ = planted(True)
    result = audit_translation(translator, sentences=sentences, max_examples=10, seed=5)
    assert "German" in result.title and len(result.examples) == 10 and result.seed == 5
    assert result == audit_translation(translator, sentences=sentences, max_examples=10, seed=5)
    other = audit_translation(translator, sentences=sentences, max_examples=10, seed=6)
    assert [e.texts[0] for e in other.examples] != [e.texts[0] for e in result.examples]
    assert "French" in audit_translation(translator, "fr", sentences=sentences[:6]).title


def test_the_alignment_of_a_model_has_a_row_for_each_word(translator):
    text = "The baker sang because she won."
    translation = translator.translate(text, beam=1, align=True, max_len=12)
    alignment = word_alignment(translator, text, translation)
    rows, columns = len(split_words(translation.text)), len(split_words(text))
    assert rows and alignment.shape == (rows, columns)
    assert alignment.min() >= 0 and alignment.sum(1).max() <= 1 + 1e-5
    without = translator.translate(text, beam=1, max_len=12)
    assert not word_alignment(translator, text, without).any()


# Held to facts: the outputs of four systems of 2019, and labels by people.

needs_data = pytest.mark.skipif(not WINOMT.is_dir(), reason="the real data sets are not here")


def lines(path):
    return lzma.decompress(path.read_bytes()).decode().splitlines()


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("winomt")
    for name in ("en.txt", "en_pro.txt", "en_anti.txt"):
        (folder / name).write_text("\n".join(lines(WINOMT / f"{name}.xz")) + "\n", encoding="utf-8")
    return read_winomt(folder)


@pytest.fixture(scope="module")
def systems(benchmark):
    """The entities in the outputs of each system and language, with the outputs; two lines have another pronoun."""
    results = {}
    for language in ("de", "fr"):
        for system in SYSTEMS:
            pairs = [line.split(" ||| ") for line in lines(WINOMT / "translations" / f"{system}.en-{language}.txt.xz")]
            assert sum(source != row.text for row, (source, _) in zip(benchmark, pairs, strict=True)) == 2
            texts = [target for _, target in pairs]
            results[system, language] = texts, find_entities(benchmark, texts, language)
    return results


def accuracy(benchmark, entities):
    right = sum(one is not None and one.gender == row.gender for row, one in zip(benchmark, entities, strict=True))
    return 100 * right / len(benchmark)


@pytest.mark.data
@needs_data
def test_the_accuracy_of_published_systems(benchmark, systems):
    """Google en-de is published with 59.4 (Stanovsky et al. 2019, table 2); the order of the systems is as there."""
    german = {system: accuracy(benchmark, systems[system, "de"][1]) for system in SYSTEMS}
    assert german["google"] == pytest.approx(59.4, abs=2)
    assert sorted(german, key=lambda name: german[name]) == ["systran", "google", "aws", "bing"]
    for _, entities in systems.values():
        assert sum(one is None for one in entities) < 0.025 * len(benchmark)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(("file", "language"), [("aws.de", "de"), ("fr", "fr")])
def test_agreement_with_people(benchmark, systems, file, language):
    """People label the person rather than the noun: `der Bäcker, weil sie` is a woman for them.

    Labels N (9 German ones, 1 French one) are left out: most are on masculine nouns with a masculine pronoun. With
    them, agreement is 82 % and 86 %; of the noun alone, it is 57 % and 75 %, because the pronoun often differs.
    """
    rows = list(csv.DictReader(lines(WINOMT / "human" / f"{file}.csv.xz")))
    labels = {"M": "male", "F": "female"}
    agreed = count = 0
    for row in rows:
        label, place = labels.get(row["Gender? [M/F/N]"].strip()), int(row["Index"])
        if label is None:
            continue
        name = next(name for name in SYSTEMS if systems[name, language][0][place].strip() == row["Sentence"].strip())
        entity = systems[name, language][1][place]
        count += 1
        agreed += entity is not None and entity.person == label
    assert count == {"de": 85, "fr": 72}[language]
    assert agreed >= 0.85 * count


@pytest.mark.slow
@pytest.mark.data
@needs_data
def test_a_trained_translator_is_audited(benchmark):
    folder = os.environ.get("CLEARHEAD_TRANSLATOR")
    if folder is None:
        pytest.skip("set CLEARHEAD_TRANSLATOR to a Marian folder from English to German")
    import clearhead

    result = audit_translation(clearhead.load(folder), sentences=benchmark, max_examples=400)
    print(*result.estimates, sep="\n")
    values = {estimate.name: estimate.value for estimate in result.estimates}
    assert len(result.examples) == 400 and 0 <= values["accuracy"] <= 100
