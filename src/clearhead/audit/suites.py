"""The suites of an audit: what each reads, which models it fits, and how it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.audit.continuations import audit_continuations, read_prompts
from clearhead.audit.counterfactual import audit_classifier
from clearhead.audit.estimates import SuiteResult
from clearhead.audit.sentence_likelihood import OnProgress, likelihood_kind, no_progress
from clearhead.audit.sentence_pairs import audit_pairs, read_pairs
from clearhead.audit.translation_gender import audit_translation, read_winomt
from clearhead.audit.underspecified_questions import audit_reader
from clearhead.audit.word_association import audit_associations
from clearhead.data import locate
from clearhead.data.group_terms import data_hash
from clearhead.files import sha256
from clearhead.hub.folder import LoadedModel
from clearhead.pipeline import Pipeline
from clearhead.tasks.registry import answer_task_name

BOLD = ("gender", "race", "religious_ideology", "political_ideology", "profession")
SAMPLED_PAIRS = "crows_pairs:crows_pairs_anonymized.csv"


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What a user chooses; a suite reads what it needs."""

    seed: int = 0
    texts: Sequence[str] | None = None  # of classifiers, instead of the templates
    pairs: Path | None = None  # of sentences, instead of CrowS-Pairs
    judge: Pipeline | None = None  # of continuations
    judge_label: str | None = None
    language: str | None = None  # that a translator writes
    max_examples: int | None = None
    on_progress: OnProgress = no_progress


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A suite: `fits` tells whether a model has what it measures, `run` measures it."""

    name: str
    title: str
    reads: str  # the kind of model
    dataset: str | None  # a named data set that has to be there
    fits: Callable[[LoadedModel], bool]
    run: Callable[[Pipeline, AuditOptions], SuiteResult]
    needs_judge: bool = False


def choose_suites(loaded: LoadedModel, names: Sequence[str] = ()) -> list[Suite]:
    """Return the suites with these names, by default all that fit; ValueError where one does not fit."""
    for name in names:
        if name not in SUITES:
            raise ValueError(f"there is no suite {name!r}: there are {', '.join(SUITES)}")
        if not SUITES[name].fits(loaded):
            raise ValueError(f"the suite {name} audits {SUITES[name].reads}, but the model is {loaded.architecture}")
    found = [SUITES[name] for name in names] or [suite for suite in SUITES.values() if suite.fits(loaded)]
    if not found:
        kinds = "; ".join(f"{suite.name}: {suite.reads}" for suite in SUITES.values())
        raise ValueError(f"no suite audits {loaded.architecture}. There are {kinds}")
    return found


def _is_masked(loaded: LoadedModel, kinds: Sequence[str]) -> bool:
    try:
        return likelihood_kind(loaded) in kinds
    except ValueError:
        return False


def _is_translator(loaded: LoadedModel) -> bool:
    config = loaded.config
    return config.encoder is not None and config.decoder is not None and config.patches is None


def _is_text_encoder(loaded: LoadedModel) -> bool:
    config = loaded.config
    return config.decoder is None and config.patches is None and answer_task_name(loaded) in (None, "embed")


def _run_pairs(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    path = options.pairs or locate(SAMPLED_PAIRS, base=".")
    pairs = read_pairs(path)[: options.max_examples]
    digest = sha256(path)
    return audit_pairs(pipeline.loaded, pairs, data_sha256=digest, seed=options.seed, on_progress=options.on_progress)


def _run_continuations(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    if options.judge is None:
        raise ValueError("texts about groups are scored by a classifier of sentiment: give its folder with --judge")
    paths = {name.split("_")[0]: locate(f"bold:{name}_prompt.json", base=".") for name in BOLD}
    prompts = read_prompts(paths, seed=options.seed)[: options.max_examples]
    return audit_continuations(
        pipeline, options.judge, prompts, data_sha256=data_hash(*paths.values()), label=options.judge_label,
        seed=options.seed,
    )  # fmt: skip


def _run_translation(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    return audit_translation(
        pipeline, options.language, sentences=read_winomt(), seed=options.seed, max_examples=options.max_examples
    )


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            name="crows_pairs", title="Sentence pairs", reads="masked and causal language models",
            dataset="crows_pairs", fits=lambda loaded: _is_masked(loaded, ("masked", "causal")), run=_run_pairs,
        ),
        Suite(
            name="continuations", title="Texts about groups", reads="causal language models", dataset="bold",
            fits=lambda loaded: _is_masked(loaded, ("causal",)), run=_run_continuations, needs_judge=True,
        ),
        Suite(
            name="winomt", title="Gender in translations", reads="translators from English to German or French",
            dataset="winomt", fits=_is_translator, run=_run_translation,
        ),
        Suite(
            name="counterfactual", title="Counterfactual texts", reads="classifiers of texts and of pairs",
            dataset=None, fits=lambda loaded: answer_task_name(loaded) in ("classify", "pair"),
            run=lambda pipeline, options: audit_classifier(pipeline, options.texts, seed=options.seed),
        ),
        Suite(
            name="associations", title="Associations of vectors", reads="encoders and embedding models", dataset=None,
            fits=_is_text_encoder,
            run=lambda pipeline, options: audit_associations(pipeline, seed=options.seed),
        ),
        Suite(
            name="underspecified_questions", title="Underspecified questions", reads="readers of the task qa",
            dataset=None, fits=lambda loaded: answer_task_name(loaded) == "qa",
            run=lambda pipeline, options: audit_reader(pipeline, seed=options.seed),
        ),
    )
}  # fmt: skip
