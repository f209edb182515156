"""Names: which texts can name a unit or a port, and what a text such as ``unit.port[2]`` refers to.

A unit's name is an identifier, so the first dot of ``unit.port`` ends it. All behind it is the port's own
name, which comes from elsewhere and may look like anything: ``der(x)``, ``body.v[1]``, ``a b``. Hence
only with the ports at hand can one tell the port ``v[1]`` from cell 1 of the array ``v``: `resolve` asks
them, and no other place takes names apart. A scenario refuses models in which the two would be one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from upbeat.core.errors import ModelError

HIDDEN: Final = "§"
"""What names begin with that no person gives or sees: outputs that a scenario has for its master alone."""
MAX_NAME: Final = 2000
"""The most characters of a port's name. Modelling tools come up with several hundred."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CELL = re.compile(r"(.*\S)\s*\[\s*([0-9]{1,9})\s*\]\Z")
_QUOTED = re.compile(r"`([^`]*)`\s*(\[\s*[0-9]{1,9}\s*\])?\Z")


def objection_to(name: object) -> str:
    """Why `name` cannot be the name of a unit, nor of a variable in equations; empty if it can."""
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        return "use letters, digits and underscores, not starting with a digit"
    if "__" in name:
        return "two underscores in a row are not allowed, because expressions cannot name it"
    return ""


def objection_to_port(name: object) -> str:
    """Why `name` cannot be the name of a port; empty if it can. Any text will do that people can type."""
    if not isinstance(name, str) or not name:
        return "give it a text"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters, and at most {MAX_NAME} are allowed"
    if name != name.strip():
        return "it must not start or end with a blank"
    if "`" in name:
        return "leave out the backtick, which encloses names in expressions"
    if not name.isprintable() and any(map(_unprintable, name)):
        return "leave out what cannot be seen (control characters, line ends)"
    return ""


def _unprintable(character: str) -> bool:
    return not character.isprintable() and unicodedata.category(character) != "Zs"


def cell_names(name: str, size: int | None) -> tuple[str, ...]:
    """What the cells of a variable are called: ``x``, or ``u[0]``, ``u[1]``, … of an array."""
    return (name,) if size is None else tuple(f"{name}[{i}]" for i in range(size))


def bare(text: str) -> str:
    """A name as it was typed, without blanks and backticks around it."""
    text = text.strip()
    found = _QUOTED.match(text)
    return f"{found[1].strip()}{found[2] or ''}" if found else text


def split(path: str) -> tuple[str, str]:
    """The unit and the rest of ``unit.rest``; the rest is empty if there is no dot."""
    unit, _, rest = path.partition(".")
    return unit.strip(), rest.strip()


ADAPTED = "unit"
"""What the unit inside an adaptation is called there."""


def without_inside(path: str) -> str:
    """A path without what the units inside adapted ones are called: ``m.unit.T`` is ``m.T``."""
    first, *way = path.split(".")
    return ".".join([first, *(part for part in way[:-1] if part != ADAPTED), *way[-1:]])


def resolve(name: str, known: Container[str]) -> tuple[str, int | None]:
    """What `name` refers to: one of the names that are `known`, whole; or else a name and a cell of it.

    Whether that one is known is for the caller to find out.
    """
    if name in known:
        return name, None
    cell = _CELL.match(name)
    return (cell[1], int(cell[2])) if cell else (name, None)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The `names` that `pattern` means: the one that it is, or else all that are like ``left.*``.

    Brackets belong to the names of cells and ports. Only where nothing has them do they mean a choice of
    characters.
    """
    names, pattern = list(names), bare(pattern)
    if pattern in names:
        return [pattern]
    with_brackets = [name for name in names if fnmatchcase(name, pattern.replace("[", "[[]"))]
    return with_brackets or [name for name in names if fnmatchcase(name, pattern)]


# ----------------------------------------------------------------------------------------------------
# The labels of an enumeration, and the whole numbers that stand for them.


class Labels(tuple[str, ...]):
    """The labels in order. `codes` are their values: 0, 1, 2, … unless other ones are given.

    A plain tuple of labels means the usual codes, and is equal to labels that have them. One value, so that
    labels and codes stay together wherever ports, columns and variables hand them on.
    """

    codes: tuple[int, ...]

    def __new__(cls, items: Iterable[str] = (), codes: Iterable[int] = ()) -> Labels:
        made = super().__new__(cls, items)
        given = tuple(codes) or codes_of(items) or tuple(range(len(made)))
        if len(given) != len(made):
            raise ModelError(f"there are {len(made)} labels, but {len(given)} codes: each label has one")
        for code in given:
            if isinstance(code, bool) or not isinstance(code, int) or not -(2**63) <= code < 2**63:
                raise ModelError(f"the code of a label is a whole number of 64 bits, not {code!r}")
        for kind, entries in (("items", tuple(made)), ("the codes of items", given)):
            if len(set(entries)) != len(entries):
                raise ModelError(f"{kind} must differ from each other: {', '.join(map(str, entries))}")
        made.codes = given
        return made

    @classmethod
    def of(cls, items: Iterable[str]) -> Labels:
        """The items themselves, if they know their codes; or else with the usual ones."""
        return items if isinstance(items, Labels) else cls(items)

    @classmethod
    def read(cls, given: Any) -> Labels:
        """From a list of labels, or a table of codes: ``{ off = 0, heat = 4 }``."""
        if isinstance(given, Mapping):
            return cls(map(str, given), given.values())
        if not isinstance(given, (list, tuple)) or not all(isinstance(item, str) for item in given):
            raise ModelError(f"items must be a list of labels, not {given!r}")
        return cls(given)

    @property
    def default_codes(self) -> bool:
        """Whether the codes go without saying."""
        return self.codes == tuple(range(len(self)))

    @property
    def written(self) -> list[str] | dict[str, int]:
        """What `read` reads back."""
        return list(self) if self.default_codes else dict(zip(self, self.codes, strict=True))

    def code(self, label: str) -> int:
        """The value of a label that exists."""
        return self.codes[self.index(label)]

    def label(self, code: float) -> str | None:
        """The label of a value; None if it has none."""
        return self[self.codes.index(int(code))] if code in self.codes else None

    def __str__(self) -> str:
        """As messages show them: ``off, heat``; or with codes that do not go without saying."""
        return ", ".join(
            self if self.default_codes else (f"{k} = {v}" for k, v in zip(self, self.codes, strict=True))
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple) or tuple(self) != tuple(other):
            return False
        return self.codes == (codes_of(other) or tuple(range(len(other))))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return tuple(self), self.codes


def codes_of(items: object) -> tuple[int, ...]:
    """The codes that labels bring with them; none for a plain tuple."""
    return items.codes if isinstance(items, Labels) else ()
