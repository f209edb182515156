"""While the site is built: the page of the Python API gets the docstrings of all its names."""

from __future__ import annotations

import inspect
from typing import Any

import upbeat as up

_MODULE = 'options: {filters: ["!^_", "!^[A-Z]", "!^suggest$"]}'


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The Markdown of the page, with a directive of mkdocstrings for each name."""
    if page.file.src_uri != "python-api.md":
        return markdown
    return f"{markdown}\n## Docstrings\n\n" + "\n".join(directive(name) for name in up.__all__)


def directive(name: str) -> str:
    thing = getattr(up, name)
    if inspect.ismodule(thing):
        return f"::: {thing.__name__}\n    {_MODULE}"
    return f"::: {thing.__module__}.{name}"
