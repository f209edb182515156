"""How variables refer to each other in a file: by position in FMI 2, by value reference in FMI 3."""

from __future__ import annotations

from collections.abc import Iterator

from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.words import Type
from upbeat.units.fmi.xml import Element

_FMI3_TAGS = {kind.value for kind in Type}


def variable_elements(root: Element, version: int) -> Iterator[Element]:
    """The elements of all variables, in order; what a later version may have added is passed over."""
    for group in root.all("ModelVariables"):
        yield from group.all("ScalarVariable") if version == 2 else group.all(*_FMI3_TAGS)


class References:
    """Turns the numbers by which a file refers to variables into their names."""

    def __init__(self, root: Element, version: int, findings: Findings) -> None:
        self.version = version
        self._names: dict[int, str] = {}
        seen: set[str] = set()
        for position, element in enumerate(variable_elements(root, version), start=1):
            at = Attributes(element, findings, "ModelVariables")
            name = at.required("name")
            at.where = where(name)
            if at.has("name") and not name:
                at.error("a variable needs a name")
            if name and name in seen:
                at.error("there are two variables of this name")
            seen.add(name)
            number = at.whole("valueReference")
            if number is None:
                if not at.has("valueReference"):
                    at.error("the attribute 'valueReference' is missing")
                number = -1
            key = position if version == 2 else number
            if version == 3 and number >= 0 and key in self._names:
                at.error(f"it has the value reference {key} of '{shown(self._names[key])}'")
            self._names.setdefault(key, name)

    def name(self, number: int) -> str | None:
        """The name of the variable that a file calls `number`."""
        return self._names.get(number)

    def resolve(self, number: int, attribute: str, at: Attributes) -> str | None:
        """The same, with an error if there is none."""
        found = self.name(number)
        if found is None:
            noun = "variable number" if self.version == 2 else "variable with the value reference"
            at.error(f"{attribute}: there is no {noun} {number}")
        return found


def where(name: str) -> str:
    """How messages speak of a variable."""
    return f"variable '{shown(name)}'"
