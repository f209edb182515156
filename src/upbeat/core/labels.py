"""The labels of an enumeration, and the whole numbers that stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from upbeat.core.errors import ModelError


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
    def usual(self) -> bool:
        """Whether the codes go without saying."""
        return self.codes == tuple(range(len(self)))

    @property
    def written(self) -> list[str] | dict[str, int]:
        """What `read` reads back."""
        return list(self) if self.usual else dict(zip(self, self.codes, strict=True))

    def code(self, label: str) -> int:
        """The value of a label that exists."""
        return self.codes[self.index(label)]

    def label(self, code: float) -> str | None:
        """The label of a value; None if it has none."""
        return self[self.codes.index(int(code))] if code in self.codes else None

    def __str__(self) -> str:
        """As messages show them: ``off, heat``; or with codes that do not go without saying."""
        return ", ".join(
            self if self.usual else (f"{k} = {v}" for k, v in zip(self, self.codes, strict=True))
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
