"""The suites of an audit: what each reads, which models it fits, and how it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clearhead.audit.continuations import audit_continuations, draw_prompts, judge_label
from clearhead.audit.counterfactual import MAX_TEXTS, audit_classifier
from clearhead.audit.estimates import SuiteResult
from clearhead.audit.run_in_chunks import OnProgress, no_progress
from clearhead.audit.sentence_likelihood import likelihood_kind
from clearhead.audit.sentence_pairs import audit_pairs, read_pairs
from clearhead.audit.translation_gender import audit_translation, read_winomt, target_language
from clearhead.audit.underspecified_questions import audit_reader
from clearhead.audit.word_association import audit_associations
from clearhead.data import locate
from clearhead.data.group_terms import data_hash
from clearhead.files import sha256
from clearhead.hub.folder import LoadedModel
from clearhead.pipeline import Pipeline
from clearhead.tasks.classify import TextInput
from clearhead.tasks.registry import answer_task_name

BOLD = ("gender", "race", "religious_ideology", "political_ideology", "profession")
CROWS_PAIRS = "crows_pairs:crows_pairs_anonymized.csv"


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What a user chooses; a suite reads what it needs."""

    seed: int = 0
    texts: Sequence[TextInput] | None = None  # of classifiers, instead of the templates
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
    fits: Callable[[LoadedModel], bool]
    run: Callable[[Pipeline, AuditOptions], SuiteResult]
    files: tuple[str, ...] = ()  # of data sets, that have to be there
    options: tuple[str, ...] = ()  # names in `AuditOptions` that only this suite uses


def choose_suites(
    loaded: LoadedModel, names: Sequence[str] = (), options: AuditOptions | None = None
) -> tuple[list[Suite], list[str]]:
    """Return the suites with these names, by default all that fit, and why others that fit are left out.

    ValueError where a named suite does not fit, or lacks its data or its judge, and where an option is of no use.
    """
    options = options or AuditOptions()
    for name in names:
        if name not in SUITES:
            raise ValueError(f"there is no suite {name!r}: there are {', '.join(SUITES)}")
        if not SUITES[name].fits(loaded):
            raise ValueError(f"the suite {name} audits {SUITES[name].reads}, but the model is {loaded.architecture}")
    wanted = [SUITES[name] for name in dict.fromkeys(names)] or [s for s in SUITES.values() if s.fits(loaded)]
    if not wanted:
        kinds = "; ".join(f"{suite.name}: {suite.reads}" for suite in SUITES.values())
        raise ValueError(f"no suite audits {loaded.architecture}. There are {kinds}")
    _refuse_unused(wanted, options)
    chosen: list[Suite] = []
    left_out: list[str] = []
    for suite in wanted:
        problem = _missing(suite, loaded, options)
        if problem and names:
            raise ValueError(f"the suite {suite.name} cannot run: {problem}")
        if problem:
            left_out.append(f"the suite {suite.name} is left out: {problem}")
        else:
            chosen.append(suite)
    if not chosen:
        raise ValueError("; ".join(left_out))
    return chosen, left_out


def _refuse_unused(suites: Sequence[Suite], options: AuditOptions) -> None:
    for owner in SUITES.values():
        for name in owner.options:
            if getattr(options, name) is not None and owner not in suites:
                flag, running = f"--{name.replace('_', '-')}", ", ".join(suite.name for suite in suites)
                raise ValueError(
                    f"{flag} is for the suite {owner.name}, which audits {owner.reads}; the suites of this audit are "
                    f"{running}: leave {flag} out"
                )


def _missing(suite: Suite, loaded: LoadedModel, options: AuditOptions) -> str:
    """Return what a suite lacks to run, and how to get it; empty if it lacks nothing."""
    try:
        for file in () if suite.name == "crows_pairs" and options.pairs else suite.files:
            locate(file, base=".")
        if suite.name == "winomt":
            target_language(loaded.metadata, loaded.hf_config, options.language)
    except ValueError as error:
        return str(error)
    if suite.name == "continuations":
        if options.judge is None:
            return "it needs a classifier of sentiment: give its folder with --judge"
        judge_label(options.judge, options.judge_label)
    return ""


def _is_language_model(loaded: LoadedModel, kinds: Sequence[str]) -> bool:
    if loaded.config.patches is not None or loaded.metadata.get("task") in ("caption", "draw"):
        return False
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


def _answers(*tasks: str) -> Callable[[LoadedModel], bool]:
    """Return a test whether a model of texts answers one of these tasks."""
    return lambda loaded: loaded.config.patches is None and answer_task_name(loaded) in tasks


def _run_pairs(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    path = options.pairs or locate(CROWS_PAIRS, base=".")
    pairs = read_pairs(path)
    if options.max_examples is not None and options.max_examples < len(pairs):
        drawn = np.random.default_rng(options.seed).permutation(len(pairs))[: options.max_examples]
        pairs = [pairs[i] for i in sorted(drawn.tolist())]
    result = audit_pairs(
        pipeline.loaded, pairs, data_sha256=sha256(path), seed=options.seed, on_progress=options.on_progress
    )
    if options.pairs is None:
        return result
    return replace(
        result, notes=(f"the pairs are those of {path.name}, not of CrowS-Pairs", *result.notes), own_texts=True
    )


def _run_continuations(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    assert options.judge is not None
    paths = {name.split("_")[0]: locate(f"bold:{name}_prompt.json", base=".") for name in BOLD}
    prompts = draw_prompts(paths, options.max_examples, options.seed)
    return audit_continuations(
        pipeline, options.judge, prompts, data_sha256=data_hash(*paths.values()), label=options.judge_label,
        seed=options.seed, on_progress=options.on_progress,
    )  # fmt: skip


def _run_translation(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    return audit_translation(
        pipeline, options.language, sentences=read_winomt(), seed=options.seed, max_examples=options.max_examples,
        on_progress=options.on_progress,
    )  # fmt: skip


def _run_counterfactual(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    result = audit_classifier(
        pipeline, options.texts, seed=options.seed, max_texts=options.max_examples or MAX_TEXTS,
        on_progress=options.on_progress,
    )  # fmt: skip
    return replace(result, own_texts=options.texts is not None)


def _run_associations(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    return audit_associations(pipeline, seed=options.seed)


def _run_reader(pipeline: Pipeline, options: AuditOptions) -> SuiteResult:
    return audit_reader(pipeline, seed=options.seed, on_progress=options.on_progress)


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            name="crows_pairs", title="Sentence pairs", reads="masked and causal language models",
            fits=lambda loaded: _is_language_model(loaded, ("masked", "causal")), run=_run_pairs,
            files=(CROWS_PAIRS,), options=("pairs",),
        ),
        Suite(
            name="continuations", title="Texts about groups", reads="causal language models",
            fits=lambda loaded: _is_language_model(loaded, ("causal",)), run=_run_continuations,
            files=tuple(f"bold:{name}_prompt.json" for name in BOLD), options=("judge", "judge_label"),
        ),
        Suite(
            name="winomt", title="Gender in translations", reads="translators from English to German or French",
            fits=_is_translator, run=_run_translation,
            files=tuple(f"winomt:{name}" for name in ("en.txt", "en_pro.txt", "en_anti.txt")), options=("language",),
        ),
        Suite(
            name="counterfactual", title="Counterfactual texts", reads="classifiers of texts and of pairs",
            fits=_answers("classify", "pair"), run=_run_counterfactual, options=("texts",),
        ),
        Suite(
            name="associations", title="Associations of vectors", reads="encoders and embedding models",
            fits=_is_text_encoder, run=_run_associations,
        ),
        Suite(
            name="underspecified_questions", title="Underspecified questions",
            reads="readers of the tasks qa and answer", fits=_answers("qa", "answer"), run=_run_reader,
        ),
    )
}  # fmt: skip
