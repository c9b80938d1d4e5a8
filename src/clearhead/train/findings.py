"""What a check of the data finds."""

from dataclasses import dataclass

MAX_PLACES = 5  # shown per finding


@dataclass(frozen=True)
class DataFinding:
    """A problem in the data: the number of rows and the places of the first ones, without their text."""

    what: str
    count: int
    places: tuple[str, ...] = ()
