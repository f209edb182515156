"""XML: read from strangers, as plain elements with their line numbers and none of XML's tricks; and written.

Entities, document types and what else can make a small file large or reach for other files is refused,
as are depths and sizes no description has. `xml.etree` forgets lines and reads entities, so the
elements are built here, straight from expat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from xml.parsers import expat

from upbeat.core.errors import FileProblem, cannot_read
from upbeat.core.records import dataclass

_NAMESPACE = "\n"
"""Between a namespace and a name in what expat reports; it can be in neither."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a document may be."""

    size: int = 512 << 20
    depth: int = 100
    elements: int = 5_000_000


LIMITS = Limits()


@dataclass(slots=True)
class Element:
    """One element: its name (with a namespace: ``{namespace}name``), attributes, children, text and line."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> Iterator[Element]:
        """The children with one of these names, in order."""
        return (child for child in self.children if child.tag in tags)

    def first(self, tag: str) -> Element | None:
        """The first child of this name."""
        return next(self.all(tag), None)


def read(path: Path, limits: Limits = LIMITS) -> Element:
    """The root element of an XML file; `FileProblem` with file and line if it is not acceptable."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.size + 1)
    except OSError as error:
        raise cannot_read(path, error) from None
    return parse(data, str(path), limits)


def parse(data: bytes, source: str, limits: Limits = LIMITS) -> Element:
    """The root element of an XML document; messages speak of it as `source`."""
    if len(data) > limits.size:
        raise FileProblem(f"{source} is larger than {limits.size:,} bytes, which no description is")
    builder = _Builder(source, limits)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise FileProblem(
            f"{source}, line {error.lineno}: this is not well-formed XML: {expat.ErrorString(error.code)}"
        ) from None
    except (ValueError, LookupError):  # what pyexpat raises for encodings it does not know
        raise FileProblem(f"{source}: the encoding it declares is unknown; save it as UTF-8") from None
    if builder.root is None:
        raise FileProblem(f"{source} has no element")
    return builder.root


class _Builder:
    """Collects what expat reports into elements."""

    def __init__(self, source: str, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self.root: Element | None = None
        self.open: list[Element] = []
        self.texts: list[list[str]] = []
        self.count = 0
        self.parser = expat.ParserCreate(namespace_separator=_NAMESPACE)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.EntityDeclHandler = self.entity
        self.parser.ExternalEntityRefHandler = self.entity

    def refuse(self, what: str) -> FileProblem:
        return FileProblem(f"{self.source}, line {self.parser.CurrentLineNumber}: {what}")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > self.limits.elements:
            raise self.refuse(f"there are more than {self.limits.elements:,} elements")
        if len(self.open) >= self.limits.depth:
            raise self.refuse(f"the elements are nested more than {self.limits.depth} deep")
        names = {_name(key): value for key, value in attributes.items()}
        element = Element(_name(tag), names, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        self.texts.append([])

    def end(self, _: str) -> None:
        self.open.pop().text = "".join(self.texts.pop()).strip()

    def data(self, text: str) -> None:
        self.texts[-1].append(text)

    def doctype(self, *_: object) -> None:
        raise self.refuse("a document type (<!DOCTYPE …>) is not accepted here: remove it")

    def entity(self, *_: object) -> int:
        raise self.refuse("entities are not accepted here: write the text itself")


def _name(reported: str) -> str:
    space, separator, name = reported.rpartition(_NAMESPACE)
    return f"{{{space}}}{name}" if separator else reported


# ----------------------------------------------------------------------------------------------------
# Writing XML: elements as text, with prefixes as they are and whatever namespaces annotations bring along.


def element(tag: str, *children: Element | None, text: str = "", **attributes: object) -> Element:
    """An element; attributes and children that are None are left out. ``mime_type`` is ``mime-type``."""
    given = {key.replace("_", "-"): _text(value) for key, value in attributes.items() if value is not None}
    return Element(tag, given, 0, [child for child in children if child is not None], text)


def group(tag: str, children: list[Element]) -> Element | None:
    """An element around others; None if there are none."""
    return element(tag, *children) if children else None


def document(root: Element) -> bytes:
    """The whole file."""
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
