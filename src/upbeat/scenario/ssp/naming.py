"""Names of units and of the scenario's own ports, made from the names that an SSP has.

The component ``plant`` in the system ``Inner`` becomes the unit ``Inner_plant``: its recorded columns are
``Inner_plant.y`` for what the SSP calls ``Inner.plant.y``. What a name cannot have becomes an underscore.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from upbeat.core.expr import RESERVED
from upbeat.scenario.directory import INPUTS

_OTHERS = re.compile(r"[^A-Za-z0-9_]+")
_TAKEN = {INPUTS, "time", *RESERVED}


def identifiers(paths: Iterable[tuple[str, ...]], taken: Collection[str] = ()) -> dict[tuple[str, ...], str]:
    """A name of its own for each path."""
    found: dict[tuple[str, ...], str] = {}
    used = {*_TAKEN, *taken}
    for path in paths:
        name = _identifier("_".join(path))
        count, first = 2, name
        while name in used:
            name, count = f"{first}_{count}", count + 1
        used.add(name)
        found[path] = name
    return found


def _identifier(text: str) -> str:
    name = re.sub("_+", "_", _OTHERS.sub("_", text))
    if name in ("", "_"):
        return "unit"
    return f"_{name}" if name[0].isdigit() else name
