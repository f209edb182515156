"""Writing XML: elements as text, with the prefixes of SSP and whatever namespaces annotations bring along."""

from __future__ import annotations

from upbeat.scenario.ssp.elements import NAMESPACES
from upbeat.units.fmi.xml import Element


def element(tag: str, *children: Element | None, text: str = "", **attributes: object) -> Element:
    """An element; attributes and children that are None are left out. ``mime_type`` is ``mime-type``."""
    given = {key.replace("_", "-"): _text(value) for key, value in attributes.items() if value is not None}
    return Element(tag, given, 0, [child for child in children if child is not None], text)


def group(tag: str, children: list[Element]) -> Element | None:
    """An element around others; None if there are none."""
    return element(tag, *children) if children else None


def document(root: Element) -> bytes:
    """The whole file."""
    for prefix, address in NAMESPACES.items():
        root.attributes.setdefault(f"xmlns:{prefix}", address)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    _write(root, "", "", lines)
    return ("\n".join(lines) + "\n").encode()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _write(one: Element, indent: str, around: str, lines: list[str]) -> None:
    space, brace, name = one.tag.rpartition("}")
    space = space[1:] if brace else ("" if ":" not in one.tag else around)
    tag = name if brace else one.tag
    attributes = dict(one.attributes)
    if space != around:
        attributes["xmlns"] = space
    written = []
    for number, (key, value) in enumerate(attributes.items()):
        address, other, bare = key.rpartition("}")
        if other:  # of a namespace of its own
            written.append(f" xmlns:a{number}={_quoted(address[1:])} a{number}:{bare}={_quoted(value)}")
        else:
            written.append(f" {key}={_quoted(value)}")
    head = f"{indent}<{tag}{''.join(written)}"
    if not one.children:
        lines.append(f"{head}>{_escaped(one.text)}</{tag}>" if one.text else f"{head}/>")
        return
    lines.append(f"{head}>{_escaped(one.text)}")
    for child in one.children:
        _write(child, f"{indent}  ", space, lines)
    lines.append(f"{indent}</{tag}>")


def _escaped(text: str) -> str:
    # xml.sax.saxutils has this, too, and loads half of the standard library with it.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(value: str) -> str:
    """Line ends stay line ends: a parser would read them as blanks."""
    made = _escaped(value).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    return f"'{made}'" if '"' in made and "'" not in made else '"{}"'.format(made.replace('"', "&quot;"))
