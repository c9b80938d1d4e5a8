"""The README as the description of the package, with absolute links into the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/clearhead/clearhead"


def absolute_links(text: str, tag: str) -> str:
    """Replace relative links outside code blocks by links to the file at a tag of the repository."""
    link = re.compile(r"(!\[[^\]]*\]|\])\((?!https?:|#)([^)\s]+)\)")

    def replaced(match: re.Match[str]) -> str:
        kind = "raw" if match[1].startswith("!") else "blob"
        return f"{match[1]}({REPOSITORY}/{kind}/{tag}/{match[2]})"

    parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else link.sub(replaced, part) for part in parts)


class ReadmeHook(MetadataHookInterface):
    """Sets `readme` in the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md, with links to the tag of this version."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text, f"v{metadata['version']}")}
