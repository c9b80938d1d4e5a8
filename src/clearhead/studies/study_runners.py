"""The studies as the command runs them: its options to the sizes and data of each study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from clearhead.studies.adapted_attention import AdaptedResult
    from clearhead.studies.bias_mitigation import MitigationResult
    from clearhead.studies.bottleneck import BottleneckResult
    from clearhead.studies.domain_pretraining import DomainResult
    from clearhead.studies.efficient_attention import EfficientResult
    from clearhead.studies.gradient import GradientResult
    from clearhead.studies.labels_needed import LabelsResult
    from clearhead.studies.language_models import LanguageModelsResult
    from clearhead.studies.long_recall import RecallResult
    from clearhead.studies.scaling import ScalingResult
    from clearhead.studies.training import OnProgress
    from clearhead.studies.word_order import WordOrderResult
    from clearhead.studies.word_senses import WordSenses


class StudyArgs(NamedTuple):
    """The options of the command, as a study takes them."""

    models: list[str]
    test: str
    languages: str
    text: Path | None
    folder: Path
    seed: int
    quick: bool
    steps: int | None
    on_progress: OnProgress


def _bottleneck(args: StudyArgs) -> BottleneckResult:
    from clearhead.data import read_rows
    from clearhead.data.datasets import locate
    from clearhead.studies import bottleneck

    if args.quick:
        return bottleneck.quick(args.folder / "dates", seed=args.seed, on_progress=args.on_progress)
    folders: dict[str, Path] = {}
    for model in args.models:
        label, equals, path = model.partition("=")
        if not (label and equals and path):
            raise ValueError(f"--model {model}: write it as LABEL=FOLDER, for instance 'GRU, no attention=runs/gru'")
        folders[label] = Path(path)
    if not folders:
        raise ValueError("no translation model: give --model LABEL=FOLDER, or --quick for tiny models")
    pair = args.languages.split("-")
    if len(pair) != 2:
        raise ValueError(f"--languages {args.languages}: write it as SOURCE-TARGET, for instance en-de")
    files: list[Path] = []
    for language in pair:
        plain = Path(f"{args.test}.{language}")
        files.append(plain if plain.is_file() else locate(f"{args.test}.{language}.gz", Path()))
    rows = list(read_rows(dict(zip(("source", "target"), files, strict=True))))
    sources, targets = ([row.values[side] for row in rows] for side in ("source", "target"))
    return bottleneck.measure(folders, sources, targets, on_progress=args.on_progress)


def _gradient(args: StudyArgs) -> GradientResult:
    from clearhead.studies import StudyCorpus, gradient

    sizes: dict[str, Any] = {"steps": 3, "width": 16, "reach": 24, "sequences": 4} if args.quick else {}
    corpus = StudyCorpus.from_file(args.text)
    return gradient.measure(corpus, args.folder, seed=args.seed, on_progress=args.on_progress, **sizes)


def _language_models(args: StudyArgs) -> LanguageModelsResult:
    from clearhead.studies import StudyCorpus, language_models

    sizes: dict[str, Any] = {}
    if args.quick:
        sizes = {"steps": 12, "models": language_models.SMALL, "vocab_size": 300, "batch_tokens": 512}
    corpus = StudyCorpus.from_file(args.text)
    return language_models.measure(corpus, args.folder, seed=args.seed, on_progress=args.on_progress, **sizes)


def _labels(args: StudyArgs) -> LabelsResult:
    from clearhead.studies import labels_needed as labels
    from clearhead.studies.training import SST2, glue_rows

    runs = args.folder / "runs"
    progress: dict[str, Any] = {"on_progress": args.on_progress}
    steps = 0 if args.models else 4 if args.quick else 2500
    if args.models:
        encoder = Path(args.models[0])
    else:
        text, base = _text(args.text, labels.TEXT)
        sizes: dict[str, Any] = {"size": "tiny", "vocab_size": 500, "batch_tokens": 512} if args.quick else {}
        encoder = labels.pretrained(
            args.folder / "pretrained", steps=steps, text=text, base=base, seed=args.seed, **progress, **sizes
        )
    untrained = labels.reinitialized(encoder, args.folder / "untrained", args.seed)
    base_models = {"untrained": str(untrained.absolute()), "pre-trained here": str(encoder.absolute())}
    if args.quick:
        rows = [((f"this is {kind} number {n}",), kind) for n in range(60) for kind in ("good", "bad")]
        sizes = {"sizes": (10, 40), "seeds": 2, "min_steps": 2}
        return labels.measure(runs, rows, rows[:40], base_models, data="made up", **progress, **sizes)
    rows, test = (glue_rows(SST2, part) for part in ("train", "dev"))
    base_models["MiniLM"] = labels.MINILM
    return labels.measure(runs, rows, test, base_models, data="sentiment (SST-2)", pretraining_steps=steps, **progress)


def _word_senses(args: StudyArgs) -> WordSenses:
    from clearhead.pipeline import load
    from clearhead.studies import word_senses
    from clearhead.train.init_model import base_model_folder

    pipeline = load(base_model_folder(_base_model(args.models), Path()))
    name = Path(args.models[0]).name if args.models else "MiniLM"
    return word_senses.measure(pipeline.model, pipeline.tokenizer, name)


def _word_order(args: StudyArgs) -> WordOrderResult:
    from clearhead.studies import word_order

    options: dict[str, Any] = {"base_model": _base_model(args.models), "on_progress": args.on_progress}
    runs = args.folder / "runs"
    if args.quick:
        sentences = [f"the dog bit the man {n}" if n % 2 else f"the man bit the dog {n}" for n in range(64)]
        rows = [((text,), "a" if n % 2 else "b") for n, text in enumerate(sentences)]
        options |= {"grams": (1, 0), "seeds": 2, "epochs": 1, "tokens": 5000}
        return word_order.measure(runs, {"who bit whom": (rows, rows[:20])}, sentences, **options)
    return word_order.measure(runs, word_order.glue(), word_order.squad(), **options)


def _scaling(args: StudyArgs) -> ScalingResult:
    from clearhead.studies import scaling

    text, base = _text(args.text, scaling.TEXT)
    sizes: dict[str, Any] = {}
    if args.quick:
        sizes = {"widths": (16, 32), "tokens": (2000, 4000, 8000), "vocab_size": 300, "batch_tokens": 512}
        sizes["validation_rows"] = 20
    options: dict[str, Any] = {"seed": args.seed, "on_progress": args.on_progress, **sizes}
    return scaling.measure(args.folder / "runs", text=text, base=base, **options)


def _domain(args: StudyArgs) -> DomainResult:
    from clearhead.studies import domain_pretraining

    options: dict[str, Any] = {"base_model": _base_model(args.models), "seed": args.seed}
    options["on_progress"] = args.on_progress
    runs = args.folder / "runs"
    if args.quick:
        questions = domain_pretraining.made_up_questions()
        options |= {"seeds": 2, "pretraining_steps": 4, "batch_tokens": 256, "finetuning_steps": 2}
        options |= {"max_len": 64, "window": 64}
        return domain_pretraining.measure(runs, questions[:30], questions[30:], data="made up", **options)
    return domain_pretraining.measure(runs, *domain_pretraining.covid_qa(), data="COVID-QA", **options)


def _efficient(args: StudyArgs) -> EfficientResult:
    from clearhead.pipeline import load
    from clearhead.studies import efficient_attention
    from clearhead.studies.training import StudyCorpus
    from clearhead.train.init_model import base_model_folder

    sizes: dict[str, Any] = {"lengths": (256, 512), "memory": False, "max_tokens": 96} if args.quick else {}
    if args.quick and args.text is None:
        text = "The cat sat on the mat, and the dog slept beside the fire. " * 20
    else:
        text = StudyCorpus.from_file(args.text).path.read_text(encoding="utf-8")
    name = Path(args.models[0]).name if args.models else "MiniLM"
    pipeline = load(base_model_folder(_base_model(args.models), Path()))
    return efficient_attention.measure(pipeline, text, name, on_progress=args.on_progress, **sizes)


def _adapted(args: StudyArgs) -> AdaptedResult:
    from clearhead.studies import adapted_attention

    if not args.models:
        raise ValueError("this study needs a model that clearhead trained: give its folder with --model")
    steps = args.steps or (2 if args.quick else 100)
    return adapted_attention.measure(Path(args.models[0]), args.folder, steps=steps, on_progress=args.on_progress)


def _recall(args: StudyArgs) -> RecallResult:
    from clearhead.studies import long_recall

    sizes: dict[str, Any] = {} if args.steps is None else {"steps": args.steps}
    if args.quick:
        sizes = {"steps": 3, "methods": ("exact", "sink_window"), "lengths": (128, 256), "texts": 2} | sizes
    return long_recall.measure(args.folder, seed=args.seed, on_progress=args.on_progress, **sizes)


def _augmentation(args: StudyArgs) -> MitigationResult:
    from clearhead.studies import bias_mitigation
    from clearhead.studies.training import SST2, glue_rows

    options: dict[str, Any] = {"base_model": _base_model(args.models), "on_progress": args.on_progress}
    runs = args.folder / "runs"
    if args.quick:
        rows = bias_mitigation.made_up_rows()
        options |= {"count": 40, "steps": 2, "seeds": 1, "persons_per_template": 1}
        return bias_mitigation.measure(runs, rows, rows[:20], data="made up", **options)
    rows, test = (glue_rows(SST2, part) for part in ("train", "dev"))
    return bias_mitigation.measure(runs, rows, test, data="sentiment (SST-2)", **options)


def _base_model(models: list[str]) -> str:
    from clearhead.studies import labels_needed as labels

    return str(Path(models[0]).absolute()) if models else labels.MINILM


def _text(text: Path | None, default: tuple[str, ...]) -> tuple[tuple[str, ...], Path]:
    """Return the text files of a study, its own or the given one, and the folder they are relative to."""
    return (default, Path()) if text is None else ((text.name,), text.resolve().parent)


# study -> the options it accepts, and the function that runs it
RUNNERS: dict[str, tuple[tuple[str, ...], Callable[[StudyArgs], Any]]] = {
    "bottleneck": (("--model", "--test", "--languages"), _bottleneck),
    "gradient": (("--text",), _gradient),
    "language_models": (("--text",), _language_models),
    "labels": (("--text", "--model"), _labels),
    "word_senses": (("--model",), _word_senses),
    "word_order": (("--model",), _word_order),
    "scaling": (("--text",), _scaling),
    "domain_pretraining": (("--model",), _domain),
    "efficient": (("--model", "--text"), _efficient),
    "adapted": (("--model", "--steps"), _adapted),
    "recall": (("--steps",), _recall),
    "augmentation": (("--model",), _augmentation),
}
