"""What only a person can say of a model or of data: questions, answers in a YAML file, and the blanks that remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml

from clearhead.cards.card_fields import check_language, check_license

Answers = Mapping[str, str | list[str]]

MAX_ANSWERS_CHARACTERS = 1 << 18
PLACEHOLDERS = ("", "-", "?", "...", "n/a", "na", "none yet", "tba", "tbd", "to do", "todo", "xxx")
BLANK = "[blank: "  # begins the mark of a blank in a draft


@dataclass(frozen=True, kw_only=True)
class CardQuestion:
    """A question that the facts of a run do not answer."""

    name: str  # the key of its answer
    prompt: str
    example: str
    kind: Literal["text", "license", "languages"] = "text"

    def check(self, value: Any) -> str | list[str]:
        """Return the answer in its form; ValueError where it is a placeholder, or not of its kind."""
        try:
            return self._checked(value)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def _checked(self, value: Any) -> str | list[str]:
        if self.kind == "languages":
            # YAML reads the code of Norwegian, no, as false
            codes = ["no" if v is False else v for v in (value if isinstance(value, list) else [value])]  # pyright: ignore[reportUnknownVariableType]
            parts = [part.strip() for code in codes for part in str(code).split(",") if part.strip()]  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
            if not parts:
                raise ValueError("no language is given")
            return list(dict.fromkeys(check_language(part) for part in parts))
        if not isinstance(value, str):
            raise ValueError(f"{value!r:.100} is not a text: put it in quotes")
        text = value.strip()
        if text.casefold() in PLACEHOLDERS or BLANK in text:
            raise ValueError(f"{text!r:.100} is a placeholder: answer it, or leave it out")
        return check_license(text) if self.kind == "license" else text


def check_answers(questions: Sequence[CardQuestion], answers: Mapping[Any, Any]) -> dict[str, str | list[str]]:
    """Return the answers in their form; ValueError names a key that is no question."""
    known = {question.name: question for question in questions}
    for name in answers:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"{name!r:.100} is not a question of the card: {hint}The questions are {', '.join(known)}")
    return {name: known[name].check(value) for name, value in answers.items() if value is not None}


def read_yaml(text: str, source: str, *, max_characters: int = MAX_ANSWERS_CHARACTERS) -> dict[Any, Any]:
    """Return a YAML mapping; ValueError names the file."""
    if len(text) > max_characters:
        raise ValueError(f"{source} has {len(text):,} characters, over {max_characters:,}: shorten it")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise ValueError("it repeats a part by an alias (*name), which is refused: write the part out")
        values: Any = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    if values is not None and not isinstance(values, dict):
        raise ValueError(f"{source} is not a mapping: write lines such as license: apache-2.0")
    return values or {}


def read_answers(path: str | Path) -> dict[Any, Any]:
    """Return the answers of a YAML file, unchecked."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}: check the path")
    return read_yaml(path.read_text(encoding="utf-8"), str(path))


def parse_answers(options: Sequence[str]) -> dict[str, str]:
    """Parse options such as license=apache-2.0."""
    answers: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise ValueError(f"{option!r:.100} has no '=': write NAME=TEXT, for example license=apache-2.0")
        answers[name.strip()] = value
    return answers


def find_blanks(questions: Sequence[CardQuestion], answers: Answers) -> list[CardQuestion]:
    """Return the questions without an answer. The license `other` asks for its name."""
    open_questions = [q for q in questions if q.name not in answers]
    return [q for q in open_questions if q.name != "license_name" or answers.get("license") == "other"]


def refuse_blanks(blanks: Sequence[CardQuestion], where: str) -> None:
    """Raise ValueError that names each blank and how to fill it."""
    if blanks:
        lines = "".join(f"\n  {q.name}: {q.prompt} Example: {q.example}" for q in blanks)
        raise ValueError(
            f"the card has {len(blanks)} {'blank' if len(blanks) == 1 else 'blanks'}, and was not written. Answer in "
            f"{where}, with --answers FILE.yaml or with --answer NAME=TEXT; --draft writes it with the blanks "
            f"marked:{lines}"
        )


def answer_or_mark(questions: Sequence[CardQuestion], answers: Answers, name: str) -> str:
    """Return the text of an answer, or the mark of a blank with its question."""
    if (answer := answers.get(name)) is not None:
        return answer if isinstance(answer, str) else ", ".join(answer)
    question = next((q for q in questions if q.name == name), None)
    return "" if question is None else f"**{BLANK}{name}]** {question.prompt}"


def license_fields(answers: Answers) -> dict[str, str]:
    """Return the metadata of the license that is answered; `other` counts once it has a name."""
    license, name = answers.get("license"), answers.get("license_name")
    if not isinstance(license, str) or (license == "other" and not isinstance(name, str)):
        return {}
    return {"license": license, "license_name": str(name)} if license == "other" else {"license": license}


MODEL_QUESTIONS = (
    CardQuestion(
        name="license", kind="license", example="apache-2.0",
        prompt="Under which license are the weights? An identifier of the hub.",
    ),
    CardQuestion(
        name="license_name", example="acme-research-1.0",
        prompt="What is the license called? Put its text into a file LICENSE.",
    ),
    CardQuestion(
        name="languages", kind="languages", example="en, de",
        prompt="Which languages does it read or write? ISO 639 codes.",
    ),
    CardQuestion(
        name="developers", example="The search team of ACME, models@acme.example",
        prompt="Who made it, and who answers questions about it?",
    ),
    CardQuestion(
        name="intended_use", example="Sorting support mail by topic, with a person who reads each mail.",
        prompt="What is it for, and for whom?",
    ),
    CardQuestion(
        name="out_of_scope_use", example="Decisions about people; medical or legal texts.",
        prompt="What must it not be used for?",
    ),
    CardQuestion(
        name="limitations", example="Trained on short reviews: unreliable above 200 words and on irony.",
        prompt="Which errors and limits are known, and what was not tested?",
    ),
    CardQuestion(
        name="people", example="Reviews by customers of a shop, mostly from Europe; names were removed.",
        prompt="Who wrote, or is named or shown in, the training data? Did they consent, and is there personal data?",
    ),
    CardQuestion(
        name="data_origin", example="Our own export of 2024, owned by ACME, not published.",
        prompt="Where do the training files come from that no catalog describes, and under which license are they?",
    ),
)  # fmt: skip
