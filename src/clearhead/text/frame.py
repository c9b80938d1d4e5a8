"""Frame: which special tokens go around a text or a pair, as a post-processor of `tokenizers` says it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import tokenizers


class Item(NamedTuple):
    """One place in a frame: the first or second text (`part` 0 or 1), or a special token (`part` -1)."""

    part: int
    segment: int
    id: int = -1


@dataclass(frozen=True)
class Frame:
    """The order of special tokens and texts, for one text and for a pair."""

    single: tuple[Item, ...] = (Item(0, 0),)
    pair: tuple[Item, ...] = (Item(0, 0), Item(1, 1))

    def items(self, pair: bool) -> tuple[Item, ...]:
        return self.pair if pair else self.single

    def overhead(self, pair: bool) -> int:
        """How many special tokens are added."""
        return sum(item.part < 0 for item in self.items(pair))

    @property
    def opening(self) -> tuple[int, ...]:
        """The special tokens before a text."""
        return self._around[0]

    @property
    def closing(self) -> tuple[int, ...]:
        """The special tokens after a text."""
        return self._around[1]

    @property
    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        at = [item.part for item in self.single].index(0)
        return tuple(i.id for i in self.single[:at]), tuple(i.id for i in self.single[at + 1 :])


BARE = Frame()


def read_frame(rust: tokenizers.Tokenizer) -> Frame:
    """The frame that a tokenizer's post-processor makes."""
    processor = rust.post_processor
    return BARE if processor is None else _parse(json.loads(processor.__getstate__()))


def _parse(post: dict[str, Any]) -> Frame:
    parse = _PARSERS.get(post["type"])
    if parse is None:
        raise ValueError(f"post-processor {post['type']!r} is not known here: use one of {', '.join(_PARSERS)}")
    frame = parse(post)
    for items, wanted in ((frame.single, [0]), (frame.pair, [0, 1])):
        if [item.part for item in items if item.part >= 0] != wanted:
            raise ValueError(f"the template places its texts as {items}: each text must be there once, in order")
    return frame


def _template(post: dict[str, Any]) -> Frame:
    ids = {name: special["ids"] for name, special in post["special_tokens"].items()}

    def items(places: list[dict[str, Any]]) -> tuple[Item, ...]:
        found: list[Item] = []
        for place in places:
            if "Sequence" in place:
                found.append(Item("AB".index(place["Sequence"]["id"]), place["Sequence"]["type_id"]))
            else:
                special = place["SpecialToken"]
                found += [Item(-1, special["type_id"], id) for id in ids[special["id"]]]
        return tuple(found)

    return Frame(items(post["single"]), items(post["pair"]))


def _bert(post: dict[str, Any]) -> Frame:
    cls, sep = post["cls"][1], post["sep"][1]
    single = (Item(-1, 0, cls), Item(0, 0), Item(-1, 0, sep))
    return Frame(single, (*single, Item(1, 1), Item(-1, 1, sep)))


def _roberta(post: dict[str, Any]) -> Frame:
    cls, sep = post["cls"][1], post["sep"][1]
    single = (Item(-1, 0, cls), Item(0, 0), Item(-1, 0, sep))
    return Frame(single, (*single, Item(-1, 0, sep), Item(1, 0), Item(-1, 0, sep)))


def _sequence(post: dict[str, Any]) -> Frame:
    frames = [f for f in map(_parse, post["processors"]) if f != BARE]
    if len(frames) > 1:
        raise ValueError(f"{len(frames)} templates, one inside another: a text gets one frame")
    return frames[0] if frames else BARE


_PARSERS: dict[str, Callable[[dict[str, Any]], Frame]] = {
    "TemplateProcessing": _template,
    "BertProcessing": _bert,
    "RobertaProcessing": _roberta,
    "ByteLevel": lambda post: BARE,
    "Sequence": _sequence,
}
