"""Models that a file only names: Python classes and functions. Refused unless the user allows it.

    kind = "python"
    function = "my_models:control"        # f(t, u, p), with inputs, outputs, parameters: PythonFunction
    function = "my_models:motion"         # f(t, x, u, p), with states as well: PythonOde
    time_advance = "my_models:lasts"      # with internal, output, external, shows, start: PythonDiscrete
    class = "my_models:Thermostat"        # makes units, with inputs and outputs: PythonUnit
    abilities = ["rollback"]              # of these units: what they promise
    sample_time = 0.1                     # and the rate at which they run, if it is their own
    class = "my_models:Engine"            # a model class (or a model), with arguments = { … } for it

The module is looked for next to the file first.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import FAULTS, InvalidInput, ModelError, suggest
from upbeat.core.ports import Causality
from upbeat.units.discrete.python import PythonDiscrete
from upbeat.units.python import PythonFunction, PythonOde, PythonUnit
from upbeat.units.shorthand import port_spec
from upbeat.units.solving.solvers import solver_spec

_PORTS = ("inputs", "outputs", "parameters")
_DISCRETE = ("time_advance", "internal", "output", "external", "shows", "to_bytes", "from_bytes")
KEYS = (
    "class", "function", "arguments", "states", "compute", "slopes", *_PORTS, "solver", *_DISCRETE,
    "start", "elapsed", "abilities", "sample_time",
)  # fmt: skip
"""What a table of kind "python" may contain."""

_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\Z")


def python_model(table: Mapping[str, Any], *, allowed: bool, folder: Path | None) -> Model:
    """The model that `table` names. Nothing is imported unless `allowed`."""
    discrete = [key for key in ("time_advance", "external") if key in table]
    chosen = [*(key for key in ("class", "function") if key in table), *discrete[:1]]
    if len(chosen) != 1:
        raise ModelError(
            "a python model names either a class or a function: "
            'class = "module:Name", or function = "module:name" (a discrete one: time_advance, external)'
        )
    if not allowed:
        raise ModelError(
            f"this file wants to run Python code ({table[chosen[0]]}), which is refused unless you trust it. "
            "To allow it, add --allow-python to the command (in Python: allow_python=True)"
        )
    with _importing_from(folder):
        if discrete:
            return _from_discrete(table)
        return _from_function(table) if "function" in table else _from_class(table)


def _from_discrete(table: Mapping[str, Any]) -> Model:
    _only(table, (*_DISCRETE, "start", "elapsed", *_PORTS), "with time_advance or external")
    if "start" not in table:
        raise ModelError("a discrete python model needs the state at first: start = …")
    options = {key: table[key] for key in ("start", "elapsed", *_PORTS) if key in table}
    options |= {key: _load(table[key], key) for key in _DISCRETE if key in table}
    return PythonDiscrete(**options)


def _from_function(table: Mapping[str, Any]) -> Model:
    function = _load(table["function"], "function")
    options = {key: table[key] for key in _PORTS if key in table}
    if "slopes" in table:
        options["slopes"] = _load(table["slopes"], "slopes")
    if "states" not in table:
        _only(table, ("function", "slopes", *_PORTS), "without states")
        return PythonFunction(function, **options)
    _only(table, ("function", "states", "compute", "slopes", "solver", *_PORTS), "with states")
    if "compute" in table:
        options["compute"] = _load(table["compute"], "compute")
    return PythonOde(function, table["states"], solver=table.get("solver"), **options)


def _from_class(table: Mapping[str, Any]) -> Model:
    named = _load(table["class"], "class")
    if any(key in table for key in _PORTS):
        _only(table, ("class", "abilities", "sample_time", *_PORTS), "with ports")
        return PythonUnit(named, **{key: value for key, value in table.items() if key != "class"})
    _only(table, ("class", "arguments"), "without ports")
    arguments = table.get("arguments", {})
    if not isinstance(arguments, Mapping):
        raise ModelError(f"arguments must be a table, not {arguments!r}")
    try:
        model: Any = named(**arguments) if isinstance(named, type) or arguments else named
    except InvalidInput:
        raise
    except FAULTS as error:
        raise ModelError(f"{table['class']} could not be made: {type(error).__name__}: {error}") from error
    if not (hasattr(model, "ports") and hasattr(model, "instantiate")):
        raise ModelError(
            f"{table['class']} is not a model: it has no ports and no instantiate. If it makes units, "
            "say which ports they have: add inputs and outputs"
        )
    made: Model = model
    return made


def _only(table: Mapping[str, Any], known: tuple[str, ...], when: str) -> None:
    for key in table:
        if key not in known:
            raise ModelError(f"a python model {when} has no '{key}'. {suggest(key, known, 'keys')}")


def _load(reference: object, key: str) -> Callable[..., Any]:
    match = _REFERENCE.match(reference) if isinstance(reference, str) else None
    if not match:
        raise ModelError(f'{key} must have the form "module:name", not {reference!r}')
    try:
        found: Any = importlib.import_module(match[1])
    except ModuleNotFoundError as error:
        raise ModelError(
            f"there is no Python module '{error.name}': it must lie next to the scenario file or be installed"
        ) from None
    except FAULTS as error:  # whatever the user's module raises while it is imported
        raise ModelError(f"importing '{match[1]}' failed: {type(error).__name__}: {error}") from error
    for name in match[2].split("."):
        if not hasattr(found, name):
            known = [n for n in vars(found) if not n.startswith("_")]
            raise ModelError(f"'{match[1]}' has no '{match[2]}'. {suggest(name, known, 'names there')}")
        found = getattr(found, name)
    loaded: Callable[..., Any] = found
    return loaded


@contextmanager
def _importing_from(folder: Path | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    from upbeat.units.process.child import FOLDERS

    place = str(folder.resolve())
    sys.path.insert(0, place)
    if place not in FOLDERS:
        FOLDERS.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


# -------------------------------------------------------------------- back to a table


def python_table(name: str, model: Model) -> dict[str, Any]:
    """The table that `python_model` reads back; an error if `model` cannot be named in a file."""
    match model:
        case PythonFunction():
            return {
                "function": _reference(name, model.function),
                **_slopes(name, model),
                **_port_tables(model),
            }
        case PythonOde():
            table: dict[str, Any] = {
                "function": _reference(name, model.derivatives),
                "states": {port.name: port_spec(port) for port in model.states},
                "solver": solver_spec(model.solver),
                **_slopes(name, model),
                **_port_tables(model),
            }
            if any(callable(source) for source in model.sources):
                raise _unwritable(name, "outputs with functions of their own")
            for port, source in zip(model.outputs, model.sources, strict=True):
                if isinstance(source, str):
                    table["outputs"][port.name]["value"] = source
                    table["outputs"][port.name].pop("size", None)
            if model.compute is not None:
                table["compute"] = _reference(name, model.compute)
            return table
        case PythonDiscrete():
            if not _writable(model.start):
                raise _unwritable(name, "a start state that is not made of texts, numbers, lists and tables")
            functions = {key: getattr(model, key) for key in _DISCRETE if getattr(model, key) is not None}
            more = {"elapsed": model.elapsed} if model.elapsed else {}
            return {
                **{key: _reference(name, function) for key, function in functions.items()},
                "start": model.start,
                **more,
                **_port_tables(model),
            }
        case PythonUnit():
            sampled = {Ability.NEXT_EVENT} if model.sample_time is not None else set()
            own = sorted(ability.name.lower() for ability in model.abilities - sampled)
            return {
                "class": _reference(name, model.factory),
                **({"abilities": own} if own else {}),
                **({} if model.sample_time is None else {"sample_time": model.sample_time}),
                **_port_tables(model),
            }
    raise _unwritable(name, f"a {type(model).__name__} made by Python code")


def _writable(value: Any) -> bool:
    """Whether a file gives back exactly this value."""
    if type(value) is list:
        return all(map(_writable, value))
    if type(value) is dict:
        return all(type(key) is str and _writable(item) for key, item in value.items())
    return type(value) in (str, int, float, bool)


def _slopes(name: str, model: PythonFunction | PythonOde) -> dict[str, str]:
    return {} if model.slopes is None else {"slopes": _reference(name, model.slopes)}


def _port_tables(model: Model) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}, "parameters": {}}
    for port in model.ports:
        spec = port_spec(port)
        if port.causality is Causality.OUTPUT:
            spec = {**spec, "depends": sorted(port.depends)}
        tables[f"{port.causality.value}s"][port.name] = spec
    return {key: table for key, table in tables.items() if table or key == "outputs"}


def _reference(unit: str, thing: Any) -> str:
    """``module:name``, if that leads back to `thing`."""
    module, path = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    found: Any = sys.modules.get(str(module))
    for part in str(path).split("."):
        found = getattr(found, part, None)
    if found is not thing or module == "__main__":
        raise _unwritable(unit, "a Python function or class that no module makes available by name")
    return f"{module}:{path}"


def _unwritable(unit: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"unit '{unit}' has {what}, which a file cannot describe. "
        "Move it to a module of its own, or write the model with expressions"
    )
