"""Pages of HTML as a browser sees them: well formed, and fetching nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"br", "img", "meta", "input", "hr", "link"}


class Balanced(HTMLParser):
    """Complains about elements that are not closed, and about anything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "data", "poster", "srcset"):
                assert value is not None
                assert value.startswith(("data:", "#")), f"{tag} would fetch {value[:60]}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(text: str) -> str:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert not parser.open
    assert not re.search(r"url\(\s*['\"]?https?:|@import|<script|<link", text)
    return "".join(parser.texts)
