"""Download: an https address as a stream of bytes, which no redirect takes to anything less."""

from __future__ import annotations

import urllib.request
from email.message import Message
from typing import IO, cast

TIMEOUT = 30.0  # seconds without a byte


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        try:
            _check(newurl)
        except ValueError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # pyright: ignore[reportArgumentType]


OPENER = urllib.request.build_opener(_HttpsOnly)


def open_https(url: str) -> IO[bytes]:
    """What is at an address; only https, with the certificate checked."""
    _check(url)
    return cast(IO[bytes], OPENER.open(url, timeout=TIMEOUT))


def _check(url: str) -> None:
    if not url.startswith("https://"):
        raise ValueError(f"{url} is refused: only https is fetched")
