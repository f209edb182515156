"""Expressions while they are typed: what is wrong, what they are measured in, how they may go on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upbeat.core.errors import ExpressionError, InvalidInput
from upbeat.core.expr import parse
from upbeat.core.expr.operations import FUNCTIONS
from upbeat.core.ports import Causality, Port
from upbeat.scenario.directory import Directory, Unclear, Wrong
from upbeat.scenario.formula import formula
from upbeat.studio.look import Reading, fit, read, sentence
from upbeat.units.process import bare

_WORD = re.compile(r"[A-Za-z_][\w.]*\Z", re.ASCII)
_MANY = 50


def checked(asked: Mapping[str, Any], path: Path, text: str, *, python: bool, root: Path) -> dict[str, Any]:
    """What there is to say about an expression: of a connection, or within the equations of a unit."""
    expression, cursor = asked.get("expression"), asked.get("cursor")
    if not isinstance(expression, str):
        raise InvalidInput("the expression must be a text")
    at = cursor if isinstance(cursor, int) and 0 <= cursor <= len(expression) else len(expression)
    found, unit = read(path, text, python=python, root=root), asked.get("unit")
    typed = _WORD.search(expression[:at])
    begun = typed[0] if typed else ""
    known = _of_unit(found, unit) if isinstance(unit, str) else _of_connections(found)
    fitting = [one for one in known if one["text"].lower().startswith(begun.lower()) and one["text"] != begun]
    inside = [one for one in known if begun.lower() in one["text"].lower() and one not in fitting]
    error, measured = _error(found, expression, connection=not isinstance(unit, str), known=known)
    if error is None and isinstance(target := asked.get("target"), str):
        error = _unfit(found, target, expression)
    return {
        "error": error,
        "completions": (fitting + (inside if begun else []))[:_MANY],
        "from": at - len(begun),
        "unit": measured,
    }


def _error(
    found: Reading, expression: str, *, connection: bool, known: list[dict[str, str]]
) -> tuple[dict[str, Any] | None, str | None]:
    if not expression.strip():
        return {"message": "write an expression", "column": 0}, None
    if connection and found.scenario is not None:
        directory = Directory(found.scenario.units, found.scenario.inputs)
        try:
            made = formula(expression, directory)
        except Wrong as wrong:
            return {"message": sentence(wrong.what.partition("\n")[0], wrong.hint),
                    "column": _column(expression)}, None  # fmt: skip
        except Unclear:
            return None, None
        try:
            quantity = made.measured()
        except Wrong as wrong:
            return {"message": sentence(wrong.what, wrong.hint), "column": 0}, None
        except Unclear:
            return None, None
        plain = made.plain
        if plain is not None:
            return None, plain.port.unit
        return None, None if quantity is None or quantity.measure is None else quantity.text
    try:
        expr = parse(expression)
    except ExpressionError as error:
        return {"message": error.reason, "column": error.column or 0}, None
    if not connection and known:
        from upbeat.core.errors import suggest
        from upbeat.core.expr import names

        words = {one["text"] for one in known}
        for name in sorted(names(expr)):
            if name.partition("[")[0] not in words:
                column = max(expression.find(name), 0)
                return {
                    "message": f"there is no '{name}' here. {suggest(name, words, 'names')}",
                    "column": column,
                }, None
    return None, None


def _unfit(found: Reading, target: str, expression: str) -> dict[str, Any] | None:
    """Why an expression cannot be connected to an input."""
    if found.scenario is None:
        return None
    try:
        fit(target, expression, Directory(found.scenario.units, found.scenario.inputs))
    except Wrong as wrong:
        return {"message": sentence(wrong.what, wrong.hint), "column": 0}
    except Unclear:
        pass
    return None


def _column(expression: str) -> int:
    """Where an expression stops making sense, if its form is wrong."""
    try:
        parse(expression)
    except ExpressionError as error:
        return error.column or 0
    return 0


def _of_connections(found: Reading) -> list[dict[str, str]]:
    """Outputs, inputs of the scenario, and functions."""
    if found.scenario is None:
        return _functions()
    own = [
        {"text": port.name, "about": _about(port, "input of the scenario")} for port in found.scenario.inputs
    ]
    outputs = [
        {"text": f"{unit}.{port.name}", "about": _about(port, "output")}
        for unit, model in found.scenario.units.items()
        for port in model.ports
        if port.causality is Causality.OUTPUT and not port.internal
    ]
    return [*outputs, *own, *_functions()]


def _of_unit(found: Reading, unit: str) -> list[dict[str, str]]:
    """What the equations of a unit may name."""
    units = found.content.get("units")
    table = units.get(unit) if isinstance(units, Mapping) else None
    if not isinstance(table, Mapping):
        return _functions()
    models = found.content.get("models")
    base = models.get(table.get("model")) if isinstance(models, Mapping) else None
    named: dict[str, str] = {}
    for whole in (base, table):
        if isinstance(whole, Mapping):
            for key, what in (
                ("states", "state"), ("inputs", "input"), ("parameters", "parameter"), ("locals", "local"),
                ("variables", "variable"), ("tables", "table"),
            ):  # fmt: skip
                part = whole.get(key, ())
                named |= dict.fromkeys(map(str, part), what) if isinstance(part, (Mapping, list)) else {}
    model = found.scenario.units.get(unit) if found.scenario is not None else None
    ports = {port.name: port for port in bare(model).ports} if model is not None else {}
    own = [
        {"text": name, "about": _about(ports[name], what) if name in ports else what}
        for name, what in named.items()
    ]
    return [*own, {"text": "time", "about": "the simulated time"}, *_functions()]


def _about(port: Port, what: str) -> str:
    kind = "enumeration" if port.items else port.kind.value
    size = f"[{port.size}]" if port.size else ""
    text = f"{what}, {kind}{size}" + (f" in {port.unit}" if port.unit else "")
    return f"{text}: {port.description}" if port.description else text


def _functions() -> list[dict[str, str]]:
    return [{"text": name, "about": "function"} for name in sorted(FUNCTIONS)]
