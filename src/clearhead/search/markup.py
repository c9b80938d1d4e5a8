"""Text of Markdown and HTML: headings by offset, and what a reader of the page would see."""

import re
from itertools import pairwise
from typing import Any

HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head", "iframe", "object"))
BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre",
    "section", "table", "td", "th", "tr", "ul",
))  # fmt: skip
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
UNCLOSED = frozenset((  # elements that are often left open, and do not nest then
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "option", "p",
    "param", "source", "td", "th", "tr", "track", "wbr", "thead", "tbody", "tfoot", "html", "head", "body",
))  # fmt: skip
MAX_NODES = 5_000_000
MAX_DEPTH = 5_000  # the parser takes quadratic time beyond
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")


def markdown_headings(text: str) -> tuple[tuple[int, str], ...]:
    """Return the headings of a Markdown text with the offset of their line; those inside code are none."""
    from markdown_it import MarkdownIt

    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    tokens = MarkdownIt("commonmark").parse(text)
    found: list[tuple[int, str]] = []
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.map is not None:
            found.append((starts[token.map[0]], _plain(inline)))
    return tuple(found)


def _plain(inline: Any) -> str:
    return "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline")).strip()


def html_text(source: str) -> tuple[str, tuple[tuple[int, str], ...], str]:
    """Return the visible text of a page, a line for each block, its headings by offset, and its title."""
    from selectolax.lexbor import LexborHTMLParser

    _check_depth(source)
    tree = LexborHTMLParser(source)
    head = tree.css_first("title")
    title = " ".join((head.text() if head is not None else "").split())
    writer = _Writer()
    node: Any = tree.body
    stop, count = node, 0
    while node is not None:  # without recursion: pages may be nested to any depth
        count += 1
        if count > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES:,} elements")
        entered = writer.enter(node)
        following = node.child if entered else None
        while following is None:
            writer.leave(node)
            if node.mem_id == stop.mem_id:
                return writer.text(), tuple(writer.headings), title
            following = node.next
            if following is None:
                node = node.parent
        node = following
    return "", (), title


def _check_depth(source: str) -> None:
    depth = 0
    for tag in _TAG.finditer(source):
        if tag[2].lower() not in UNCLOSED:
            depth = max(depth - 1, 0) if tag[1] else depth + 1
            if depth > MAX_DEPTH:
                raise ValueError(f"elements are nested deeper than {MAX_DEPTH:,}")


class _Writer:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._heading: int | None = None
        self._pre = 0
        self.headings: list[tuple[int, str]] = []

    def enter(self, node: Any) -> bool:
        """Write what is before and in a node; returns whether its children are read."""
        name = node.tag
        if name == "-text":
            self._write(node.text_content or "")
            return False
        attributes = node.attributes or {}
        if name in HIDDEN or name.startswith(("-", "!")) or "hidden" in attributes:
            return False
        if "headerlink" in (attributes.get("class") or ""):  # the permanent link of a heading: a pilcrow
            return False
        if name in BLOCKS:
            self._line()
        self._pre += name == "pre"
        if name in HEADINGS:
            self._heading = self._length
        return True

    def leave(self, node: Any) -> None:
        name = node.tag
        if name in HEADINGS and self._heading is not None:
            words = " ".join("".join(self._parts)[self._heading :].split()) if self._length > self._heading else ""
            if words:
                self.headings.append((self._heading, words))
            self._heading = None
        self._pre -= name == "pre" and self._pre > 0
        if name in BLOCKS:
            self._line()

    def _write(self, text: str) -> None:
        if not self._pre:
            lead = " " if text[:1].isspace() and self._ends_inside_a_line() else ""
            words = " ".join(text.split())
            text = lead + words + (" " if words and text[-1:].isspace() else "") if words else lead
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _ends_inside_a_line(self) -> bool:
        return bool(self._parts) and not self._parts[-1].endswith((" ", "\n"))

    def _line(self) -> None:
        if self._parts and not self._parts[-1].endswith("\n"):
            self._parts.append("\n")
            self._length += 1

    def text(self) -> str:
        return "".join(self._parts)
