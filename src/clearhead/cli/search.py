"""`clearhead search`: the passages of an index that fit a query."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, TranslatorOption


@report_errors
def search(
    index: Annotated[str, typer.Argument(help="Index made by `clearhead index`.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    top: Annotated[int, typer.Option(min=1, help="Passages to show.")] = 5,
    mode: Annotated[
        str, typer.Option(help="words (BM25), vectors, hybrid (both), or auto: hybrid if there are vectors.")
    ] = "auto",
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Let the reader of the index rank the best passages again.")
    ] = False,
    reader: Annotated[str | None, typer.Option(help="With --rerank: another reader than that of the index.")] = None,
    translator: TranslatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the passages of an index that fit a query.

    Example: clearhead search my-index "how do I resume a run"
    """
    from rich.console import Console
    from rich.text import Text

    from clearhead.search import Answerer, Index
    from clearhead.search.translated_questions import QuestionTranslator

    opened, asked = Index.open(index), QuestionTranslator(translator)([query])[0].query
    if rerank and mode != "auto":
        raise ValueError("--rerank starts from the search of the index: remove --mode")
    found = Answerer(opened, reader).search(asked, top) if rerank else opened.search(asked, top, mode=mode)
    if as_json:
        typer.echo(json.dumps([asdict(result) for result in found], ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not found:
        console.print("no passage has a word of the query")
    for number, result in enumerate(found, 1):
        head = f"{number}. {result.heading}  " if result.heading else f"{number}. "
        console.print(Text.assemble((head, "bold"), (result.place, "dim"), (f"  {result.score:.3f}", "dim")))
        console.print(Text(" ".join(result.text.split())))
        console.print()
