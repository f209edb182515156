"""Equations with an input that chooses the solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.ports import Kind
from upbeat.units.equations.changing import free_name
from upbeat.units.equations.data import Equations
from upbeat.units.solving.choice import Choice, Plain, plain_solvers
from upbeat.units.solving.solvers import Solver, solver_from


def choice_from(given: object, solver: Solver, equations: Equations) -> Choice:
    """A choice from its shorthand: itself, or ``{"by": "n", "others": ["euler", …]}``."""
    if isinstance(given, Choice):
        made = given
    elif isinstance(given, Mapping) and set(given) == {"by", "others"}:
        made = Choice(str(given["by"]), plain_solvers(map(solver_from, _listed(given["others"]))))
    else:
        raise ModelError(f'a choice is such as {{ by = "n", others = ["euler"] }}, not {given!r}')
    plain_solvers((solver, *made.others))
    if not made.others:
        raise ModelError("a choice needs at least one solver besides the unit's own")
    ports = {port.name: port for port in equations.inputs}
    port = ports.get(made.by)
    if port is None or port.kind is not Kind.INTEGER or port.size is not None:
        raise ModelError(f"'{made.by}' chooses the solver, so it must be an input and a single integer")
    return made


def _listed(given: object) -> Sequence[Any]:
    if not isinstance(given, (list, tuple)):
        raise ModelError(f"others of a choice is a list of solvers, not {given!r}")
    return given


def with_choice(spec: Mapping[str, Any], others: Sequence[Plain]) -> tuple[dict[str, Any], Choice]:
    """The table of a model, `spec`, with an input that chooses between its solver and these."""
    taken = {name for key in spec for name in (spec[key] if isinstance(spec[key], Mapping) else ())}
    made = Choice(free_name("solver", taken), tuple(others))
    inputs = {**spec.get("inputs", {}), made.by: {"kind": "integer"}}
    return {**spec, "inputs": inputs, "choice": made}, made


def marked_choosing(before: Equations, made: Equations, by: str) -> Equations:
    """The equations of such a table: who chooses is nobody's business but a master's."""
    known = {port.name: port for port in before.ports}
    inputs = tuple(
        replace(port, internal=True) if port.name == by else known[port.name] for port in made.inputs
    )
    return replace(made, inputs=inputs, outputs=before.outputs, sent=before.sent, heard=before.heard)
