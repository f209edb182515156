"""Reading XML from strangers: plain elements with their line numbers, and none of XML's tricks.

Entities, document types and what else can make a small file large or reach for other files is refused,
as are depths and sizes no description has. `xml.etree` forgets lines and reads entities, so the
elements are built here, straight from expat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from upbeat.core.errors import FileProblem, cannot_read

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
