"""FMUs in files: ``[units.pump] file = "pump.fmu"``, in both directions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import FromFile, Model
from upbeat.core.errors import ModelError

if TYPE_CHECKING:  # most scenarios have no FMUs, and need not load what runs them
    from upbeat.units.fmi.model import Fmu

KEYS = (
    *("file", "interface", "parameters", "start", "solver", "tolerance", "locals"),
    *("logging", "rollback", "isolation"),
)
"""The arguments of `Fmu`, with `file` for the path. `start` is one more place for values."""


def fmu_model(table: Mapping[str, Any], folder: Path | None) -> Fmu:
    """The model that `table` describes; its file is looked for in `folder`."""
    from upbeat.units.fmi.model import Fmu

    file = table.get("file")
    if not isinstance(file, str) or not file or "\0" in file:
        what = f'it must name an FMU: file = "model.fmu", not {file!r}' if "file" in table else _MISSING
        raise ModelError(what, [("file", what)])
    path = Path(file) if folder is None else folder / file
    options = {key: value for key, value in table.items() if key not in ("file", "start", "parameters")}
    values: dict[str, Any] = {}
    for key in ("parameters", "start"):
        given = table.get(key, {})
        if not isinstance(given, Mapping):
            what = f"{key} must be a table: {key} = {{ k = 1.0 }}"
            raise ModelError(what, [(key, what)])
        values |= given
    model = Fmu(path, **options)
    return model.with_values(values) if values else model


_MISSING = 'it is missing: file = "model.fmu"'


def fmu_table(model: Model, folder: Path | None = None) -> dict[str, Any] | None:
    """The table that `fmu_model` reads back from a file in `folder`; None if this is no FMU."""
    foreign = isinstance(model, FromFile)
    if not foreign:
        return None  # without loading what FMUs take
    from upbeat.units.fmi.model import Fmu

    if type(model) is not Fmu:
        return None
    path = model.path
    file = str(path) if folder is None else path_from(path, folder.resolve())
    return {"kind": "fmu", "file": file, **model.to_spec()}


def path_from(path: Path, folder: Path) -> str:
    """How a file in `folder` names another one: relative to it, as both may be moved together.

    What is written to a folder for temporary files is read from another one later (checkpoints, results),
    from which the way out is another: there the whole path is written.
    """
    path, temporary = path.absolute(), Path(tempfile.gettempdir()).resolve()
    try:
        shared = Path(os.path.commonpath([path, folder]))
        if folder.is_relative_to(temporary) and temporary.is_relative_to(shared):
            return path.as_posix()
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return str(path)
