"""Values from outside: other parameters and start values for a scenario that exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Model
from upbeat.core.errors import ModelError, Problems, ScenarioError, suggest
from upbeat.core.names import bare, resolve, split
from upbeat.scenario.graph import Graph
from upbeat.units.shorthand import check_settable, with_starts

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts

Where = tuple[str, ...]


def with_parameters(
    units: Mapping[str, Model],
    values: Mapping[str, Any],
    where: Where,
    problems: Problems,
    broken: Collection[str] = (),
) -> dict[str, Model]:
    """The units with the values of ``{"unit.parameter": value}``."""
    changed = dict(units)
    for key, value in values.items():
        unit, name = split(bare(key))
        here = (*where, key)
        if not name:
            problems.add(here, f"'{key}' does not name a value of a unit", "Write unit.parameter.")
        elif unit not in units:
            if unit not in broken:
                problems.add(here, f"there is no unit '{unit}'", suggest(unit, units, "units"))
        else:
            try:
                changed[unit] = changed[unit].with_values({name: value})
            except ModelError as error:
                problems.add(here, f"unit '{unit}': {error}")
            except ScenarioError as error:  # of a nested one
                for problem in error.problems:
                    problems.add(here, f"inside '{unit}': {problem.what}", problem.hint)
    return changed


def with_values(
    parts: Parts, values: Mapping[str, Any], problems: Problems, broken: Collection[str] = ()
) -> Parts:
    """The same parts with other parameters, start values, and start values of the scenario's inputs."""
    own = {port.name for port in parts.inputs}
    inputs, rest = parts.inputs, {}
    for key, value in values.items():
        if resolve(bare(key), own)[0] not in own:
            rest[key] = value
            continue
        try:
            check_settable({key: value}, own)
            inputs = with_starts(inputs, {key: value})
        except ModelError as error:
            problems.add(("values", key), str(error))
    for key, what in _without_effect(parts, rest).items():
        del rest[key]
        hint = "Change the connection, or set an input that nothing drives."
        if (source := what.strip("'")) in own:
            hint = f"Set '{source}', which drives it."
        problems.add(("values", key), f"'{key}' is driven by {what}, so a value for it has no effect", hint)
    units = with_parameters(parts.units, rest, ("values",), problems, broken)
    return replace(parts, units=units, inputs=inputs)


def _without_effect(parts: Parts, values: Mapping[str, Any]) -> dict[str, str]:
    """The connected inputs among `values`, with what drives them; not the first guesses for loops."""
    sources = {connection.target: connection.text for connection in parts.connections}
    driven = {key: path for key in values if (path := resolve(bare(key), sources)[0]) in sources}
    if not driven:
        return {}
    loops = Graph(parts.units, parts.connections).loops
    guesses = {str(node) for loop in loops for node in loop if node.side == "in"}
    return {key: _shown(sources[path]) for key, path in driven.items() if path not in guesses}


def _shown(text: str | tuple[str, ...] | Mapping[str, Any]) -> str:
    if isinstance(text, Mapping):
        return _shown(text["value"])
    return f"'{text}'" if isinstance(text, str) else f"[{', '.join(text)}]"
