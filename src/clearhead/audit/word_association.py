"""Word embedding association tests of encoders (WEAT: Caliskan et al. 2017; in sentences, SEAT: May et al. 2019).

A test asks whether two sets of target words, such as names of two origins, differ in how near they are to two sets of
attribute words, such as pleasant and unpleasant ones. The vector of a word is the mean over several short sentences:
the sentences of one word are not independent, so the word is what is permuted and drawn again.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.audit.estimates import AuditedExample, Estimate, SuiteResult, corrected, estimate
from clearhead.data.group_terms import categories, category_of, data_hash, fill
from clearhead.metrics.bootstrap import Numbers
from clearhead.pipeline import Pipeline

VERSION = "1"
FILE = Path(__file__).with_name("word_association.toml")
MAX_EXACT = 20_000  # partitions up to which the permutation test enumerates all
PERMUTATIONS = 20_000  # drawn where there are more
NEIGHBORS = 5  # of each group, among occupations and among adjectives


@dataclass(frozen=True, kw_only=True)
class AssociationTest:
    """Two target sets of words, X and Y, and two sets of attributes, A and B: is X nearer to A than Y is?"""

    targets: tuple[str, str]  # X and Y: names of groups or of lists
    attributes: tuple[str, str]  # A and B
    is_control: bool = False  # not a bias: it shows whether the vectors can show an association
    is_tested: bool = True  # False: one word names each group, so that chance among words cannot be judged

    @property
    def name(self) -> str:
        x, y = self.targets
        a, b = self.attributes
        return f"{x} against {y}: {a} rather than {b}"


def audit_associations(pipeline: Pipeline, *, seed: int = 0) -> SuiteResult:
    """Measure which of two groups the vectors of an encoder place nearer to which of two sets of attributes."""
    tests = association_tests()
    sets = {name: words_of(name) for test in tests for name in (*test.targets, *test.attributes)}
    near = {name: words_of(name) for name in ("occupations", "adjectives")}
    words = list(dict.fromkeys(chain(*sets.values(), *near.values())))
    known = dict(zip(words, word_vectors(pipeline, words), strict=True))
    vectors = {name: np.stack([known[word] for word in group]) for name, group in (sets | near).items()}
    control = next(test for test in tests if test.is_control)
    shown, chance = associate(control, vectors, seed=seed)
    estimates = [replace(shown, ideal=None, p_value=None)]
    for test in tests:
        if not test.is_control:
            found, p_value = associate(test, vectors, seed=seed)
            estimates.append(replace(found, p_value=p_value if test.is_tested else None))
    twins = len(words) - len({vector.round(6).tobytes() for vector in known.values()})
    note = f"control ({control.name}): effect size {shown.value:.2f}, p = {chance:.2g}"
    if shown.low <= 0:
        note += "; these vectors do not show it, so that small associations of the other tests mean nothing"
    results = corrected(estimates)
    return SuiteResult(
        suite="associations", title="Sentence vectors: associations of groups with attributes",
        method="Effect size d of the WEAT, on the mean vector of each word over short sentences (SEAT), with a "
        "two-sided permutation test: above 0, the group before 'against' is nearer to the first attribute.",
        unit="", estimates=results, examples=neighbors(vectors, near),
        notes=(note, *_same_vectors(twins, len(words)), *_disagreements(results)),
        version=VERSION, sha256=data_hash(FILE), seed=seed,
    )  # fmt: skip


def _same_vectors(count: int, total: int) -> list[str]:
    """Return a note if words have the vector of another word, as they do where a tokenizer does not know them."""
    if not count:
        return []
    return [
        f"{count:,} of {total:,} words have the same vector as another word: the tokenizer does not tell them apart"
    ]


def _disagreements(estimates: Sequence[Estimate]) -> list[str]:
    """Return notes on flagged estimates whose interval contains 0: it allows for the choice of the attributes too."""
    return [
        f"{e.name}: the permutation test, of the targets only, flags it, but with other attributes it could be 0"
        for e in estimates
        if e.flagged and e.low <= 0 <= e.high
    ]


@cache
def _content() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def association_tests() -> list[AssociationTest]:
    """Return the tests; those of whole categories compare each group with the first one."""
    tests: list[AssociationTest] = []
    for entry in _content()["tests"]:
        attributes = tuple(entry["attributes"])
        pairs = [tuple(entry["targets"])] if "targets" in entry else [
            (other, groups[0]) for name in entry["categories"] for groups in [categories()[name].groups]
            for other in groups[1:]
        ]  # fmt: skip
        untested = [group for name in entry.get("untested", []) for group in categories()[name].groups]
        tests += [
            AssociationTest(
                targets=(x, y), attributes=(attributes[0], attributes[1]), is_control=entry.get("control", False),
                is_tested=x not in untested,
            )
            for x, y in pairs
        ]  # fmt: skip
    return tests


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a list or of a group, or else the phrases that name a person of the group."""
    words: Mapping[str, str] = _content()["words"] | _content()["concepts"]
    return tuple(words[name].split()) if name in words else category_of(name).persons(name)


def word_vectors(pipeline: Pipeline, words: Sequence[str]) -> Numbers:
    """Return the vector of each word, the mean of those of its sentences, all of length 1, (words, D)."""
    templates: list[str] = _content()["templates"]
    sentences = [fill(template, word=word) for word in words for template in templates]
    vectors = pipeline.encode(sentences, normalize=True).double().cpu().numpy()
    return _unit(vectors.reshape(len(words), len(templates), -1).mean(1))


def _unit(vectors: Numbers) -> Numbers:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def associate(test: AssociationTest, vectors: Mapping[str, Numbers], *, seed: int) -> tuple[Estimate, float]:
    """Return the effect size with its interval, and the p-value of the permutation test."""
    x, y = (vectors[name] for name in test.targets)
    a, b = (vectors[name] for name in test.attributes)
    cosines = _unit(np.concatenate([x, y])) @ _unit(np.concatenate([a, b])).T  # (targets, attributes)
    sizes = (len(x), len(y), len(a), len(b))
    ends = np.cumsum((0, *sizes))
    strata = [np.arange(lo, hi) for lo, hi in pairwise(ends)]

    def statistic(rows: Numbers) -> float:
        targets = rows[rows < ends[2]]
        first, second = rows[(rows >= ends[2]) & (rows < ends[3])] - ends[2], rows[rows >= ends[3]] - ends[2]
        of_targets = cosines[targets]
        scores = of_targets[:, first].mean(1) - of_targets[:, second].mean(1)
        return effect_size(scores[targets < ends[1]], scores[targets >= ends[1]])

    found = estimate(test.name, statistic, strata, ideal=0.0, seed=seed)
    scores = cosines[:, : sizes[2]].mean(1) - cosines[:, sizes[2] :].mean(1)
    return found, permutation_test(scores[: sizes[0]], scores[sizes[0] :], seed=seed)


def effect_size(x: Numbers, y: Numbers) -> float:
    """Return Cohen's d of the association scores of two sets, over the standard deviation of both sets together."""
    spread = float(np.concatenate([x, y]).std(ddof=1))
    return float(x.mean() - y.mean()) / spread if spread > 0 else 0.0


def permutation_test(x: Numbers, y: Numbers, *, seed: int = 0) -> float:
    """Return the two-sided p-value: the share of partitions of both sets whose difference is at least as large.

    All partitions are counted where they are few; otherwise they are drawn, and the observed one counts as one of them.
    """
    scores = np.concatenate([x, y])
    total, count = len(scores), len(x)
    center = scores.mean()
    observed = abs(float(x.mean() - center)) * (1 - 1e-12)
    if math.comb(total, count) <= MAX_EXACT:
        chosen = np.array(list(combinations(range(total), count)))
        return float((np.abs(scores[chosen].mean(1) - center) >= observed).mean())
    draw = np.random.default_rng(seed)
    shuffled = draw.permuted(np.tile(scores, (PERMUTATIONS, 1)), axis=1)[:, :count]
    return (int((np.abs(shuffled.mean(1) - center) >= observed).sum()) + 1) / (PERMUTATIONS + 1)


def neighbors(vectors: Mapping[str, Numbers], near: Mapping[str, Sequence[str]]) -> tuple[AuditedExample, ...]:
    """Return the words that are nearer to a group than to the others of its category, the nearest first.

    The effect is the cosine with the mean vector of the group, less the means over the groups and over the words.
    """
    found: list[AuditedExample] = []
    for category in categories().values():
        groups = _unit(np.stack([vectors[group].mean(0) for group in category.groups]))
        for name, words in near.items():
            cosines = groups @ vectors[name].T  # (groups, words)
            lead = cosines - cosines.mean(0)
            lead -= lead.mean(1, keepdims=True)
            for group, row in zip(category.groups, lead, strict=True):
                nearest = [int(i) for i in np.argsort(-row, kind="stable")[:NEIGHBORS] if row[i] > 0]
                label = f"{category.name}: {name}"
                found += [AuditedExample(texts=(group, words[i]), effect=float(row[i]), group=label) for i in nearest]
    return tuple(found)
