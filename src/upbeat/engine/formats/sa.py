"""Adaptations in `.sa` files as models: ``[units.window] sa = "window.sa"``, or `read_sa`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from upbeat.adapt.sa.compiling import adaptation_of
from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, check_type
from upbeat.engine.nesting.model import Nested, adapted
from upbeat.scenario.files.fmu_models import path_from


def read_sa(
    file: str | Path,
    units: Mapping[str, Model] | None = None,
    *,
    adaptation: str = "",
    parameters: Mapping[str, float | bool] | None = None,
) -> Nested:
    """The model that an adaptation in a `.sa` file makes of units.

        window = up.read_sa("loop_sa.sa", {"window": window, "obstacle": obstacle})

    `units` are the inner units by name (``"window"``), or by their way through nested adaptations
    (``"window_sa.window"``), or by type; FMUs that the file finds by their path need not be given.
    `adaptation` is the name of one of several; without it, it is the last one in the file.
    `parameters` gives those of the file other values, those of adaptations inside as ``"loop_sa.MAXITER"``.
    """
    check_type(file, (str, Path), "file")
    check_type(units or {}, Mapping, "units")
    check_type(parameters or {}, Mapping, "parameters")
    inner, chosen = dict(units or {}), dict(parameters or {})
    made = adapted(adaptation_of(file, inner, adapted, name=adaptation, parameters=chosen))
    return made.read_from(
        {"sa": Path(file).resolve(), "units": inner, "adaptation": adaptation, "parameters": chosen}
    )


def sa_table(
    model: Nested, folder: Path, table_of: Callable[[str, Model], Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The table of a `.sa` unit in a file in `folder`; `table_of` makes those of the units inside. None if it
    was not read from a `.sa` file."""
    if model.table is None:
        return None
    table = dict(model.table)
    file = path_from(Path(table["sa"]), folder.resolve())
    units = {name: dict(table_of(name, inner)) for name, inner in table["units"].items()}
    found = {"sa": file, "units": units, "parameters": table["parameters"]}
    found["adaptation"] = table["adaptation"]
    return {key: value for key, value in found.items() if value}


def sa_model(table: Mapping[str, Any], folder: Path | None) -> Nested:
    """The model of a table with `sa`; its `units` are models already."""
    file, name = table["sa"], table.get("adaptation", "")
    if not isinstance(file, str) or not file.endswith(".sa") or "\0" in file:
        raise InvalidInput(f'sa must name a file, such as "window.sa", not {file!r}')
    if not isinstance(name, str):
        raise InvalidInput(f'adaptation must name one in {file}, such as "window_sa", not {name!r}')
    parameters = table.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise InvalidInput("parameters must be a table: parameters = { RATE = 10 }")
    path = Path(file) if folder is None else folder / file
    return read_sa(path, table.get("units", {}), adaptation=name, parameters=parameters)
