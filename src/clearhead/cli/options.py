"""Options that several commands share, and choices that help texts list.

The choices repeat names of modules that import torch: `clearhead COMMAND --help` must not. A test compares them.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

TASK_NAMES = (
    "translate", "language_model", "dialogue", "masked_lm", "replaced_tokens", "classify", "pair", "tag", "qa", "embed",
    "rerank", "answer", "caption", "draw",
)  # fmt: skip
TEMPLATE_NAMES = ("bert", "albert", "roberta", "bart", "xlm-roberta", "gpt2", "llama", "t5", "marian")
TOKENIZER_KINDS = ("wordpiece", "bpe", "unigram")
EMBED_BATCH_TOKENS = 8192

TYPER_OPTIONS: dict[str, Any] = {
    "context_settings": {"max_content_width": 100, "help_option_names": ["-h", "--help"]},
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # importing rich takes longer than everything else together
}

ModelArgument = Annotated[
    str, typer.Argument(help="Model folder, also s3://..., or model name on the Hugging Face hub.")
]
TaskModelArgument = Annotated[str, typer.Argument(help="Folder of a classifier, tagger or question-answering model.")]
LabeledFileArgument = Annotated[Path, typer.Argument(help="Labeled rows, in any format that can be trained on.")]
RecipeArgument = Annotated[Path, typer.Argument(help="Recipe, a YAML file. `clearhead new` writes one.")]

ColumnOption = Annotated[list[str] | None, typer.Option(help="Column of a field: --column text=review. Repeatable.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Override a recipe setting, e.g. --set train.steps=100. Repeatable.")
]
DtypeOption = Annotated[str, typer.Option(help="float32, bfloat16 or auto (bfloat16 if this machine computes in it).")]
DeviceOption = Annotated[str, typer.Option(help="PyTorch device: cpu, cuda, cuda:1, mps or auto (GPU if available).")]
EngineOption = Annotated[
    Literal["auto", "clearhead", "ctranslate2"],
    typer.Option(help="What translates. auto: CTranslate2 in int8 if it is installed and --dtype is auto."),
]
TranslatorOption = Annotated[
    str | None,
    typer.Option(help="Model that translates what is asked into the language of the documents.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
TopKOption = Annotated[int | None, typer.Option(min=0, help="Sample from the k most likely tokens; 0: from all.")]
SeedOption = Annotated[int | None, typer.Option(min=0, help="Random seed. The same seed gives the same text.")]


def is_index_address(name: str) -> bool:
    """Return whether this is the address of an index rather than of a model, without importing the engine."""
    return ("://" in name and not name.startswith("s3://")) or Path(name, "passages.lance").exists()
