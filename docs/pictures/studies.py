"""Draw the figures of the studies again from their records in docs/results: python docs/pictures/studies.py"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from clearhead.studies import STUDIES, demo
from clearhead.viz import save

HERE = Path(__file__).parent
RECORDS = HERE.parent / "results"


def measured(study: ModuleType, record: dict[str, Any]) -> Any:
    """What a study measured, from its record."""
    annotation = next(iter(inspect.signature(study.draw).parameters.values())).annotation
    kind = getattr(study, annotation) if isinstance(annotation, str) else annotation
    return TypeAdapter(kind).validate_python(record["measured"])


def draw(name: str, study: ModuleType, record: dict[str, Any]) -> None:
    """Draw the figure of a study, or each of its figures, as SVG."""
    figures = study.draw(measured(study, record))
    for suffix, figure in figures.items() if isinstance(figures, dict) else [("", figures)]:
        svg, png = save(figure, HERE / f"{name}{suffix and '-' + suffix}")
        png.unlink()
        print(svg)


def main() -> None:
    for name, study in {**STUDIES, "dates": demo}.items():
        for path in sorted({*RECORDS.glob(f"{name}.json"), *RECORDS.glob(f"{name}_*.json")}):  # NAME_MODEL.json
            draw(path.stem, study, json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
