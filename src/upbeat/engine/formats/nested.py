"""Nested scenarios in files: ``[units.car] scenario = "car.toml"``, in both directions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, Problems, suggest
from upbeat.core.records import dataclass
from upbeat.engine.choose import EngineName
from upbeat.engine.nesting.adapted import adapted, taken_apart
from upbeat.engine.nesting.model import Nested
from upbeat.engine.settings import default_pace
from upbeat.master.master import Master
from upbeat.master.settings import master_from, settings_of
from upbeat.scenario.files import reading as files
from upbeat.scenario.files.definitions import ADAPT, AdaptationError, Nest, table_of
from upbeat.scenario.files.reading import ScenarioFile, read_scenario

DEEPEST = 50


def nesting(path: Path, allow_python: bool) -> Nest:
    """What makes units of the scenarios that the file `path` nests."""
    return _Inside(_Nesting(allow_python), (path,))


@dataclass(frozen=True)
class _Inside:
    """What makes units inside those of a file that was reached by this way."""

    nesting: _Nesting
    chain: tuple[Path, ...]

    def __call__(self, table: Mapping[str, Any], folder: Path | None) -> Model:
        return self.nesting.nested(table, folder, self.chain)

    def adapted(self, model: Model, given: Sequence[Any], folder: Path | None) -> Model:
        """One adaptation after the other, so that it is known which one is wrong."""
        for index, one in enumerate(_beside(one, folder) for one in given):
            try:
                model = adapted(model, one)
            except InvalidInput as error:
                raise AdaptationError(index, str(error)) from None
        return model


def _beside(given: Any, folder: Path | None) -> Any:
    """An adaptation whose file, if it has one, is looked for next to the scenario file."""
    if folder is not None and isinstance(given, str) and given.endswith(".sa"):
        return {"kind": "sa", "file": str(folder / given)}
    if folder is not None and isinstance(given, Mapping) and isinstance(given.get("file"), str):
        return {**given, "file": str(folder / given["file"])}
    return given


class _Nesting:
    """Reads every file once, and knows the way to each."""

    def __init__(self, allow_python: bool) -> None:
        self._allow_python = allow_python
        self._read: dict[Path, tuple[ScenarioFile, Master]] = {}
        self._broken: set[Path] = set()
        self._made: dict[tuple[Path, EngineName, bool], Nested] = {}

    def nested(self, table: Mapping[str, Any], folder: Path | None, chain: tuple[Path, ...]) -> Model:
        if "sa" in table:
            from upbeat.engine.formats.sa import sa_model  # few scenarios have any

            return sa_model(table, folder)
        path = _path(table["scenario"], folder)
        engine, flatten = table.get("engine", "auto"), table.get("flatten", True)
        if engine not in get_args(EngineName):
            names = get_args(EngineName)
            raise InvalidInput(f"there is no engine {engine!r}. {suggest(str(engine), names, 'engines')}")
        if not isinstance(flatten, bool):
            raise InvalidInput(f"flatten must be true or false, not {flatten!r}")
        resolved = path.resolve()
        way = " → ".join(str(p) for p in (*chain, path))
        if resolved in {p.resolve() for p in chain}:
            raise InvalidInput(f"the files nest each other in a circle: {way}")
        if len(chain) > DEEPEST:
            raise InvalidInput(f"scenarios are nested more than {DEEPEST} deep")
        if resolved in self._broken:  # and what is wrong with it has been told
            raise InvalidInput(f"{path} has problems")
        if resolved not in self._read:
            try:
                self._read[resolved] = self._file(path, chain)
            except InvalidInput:
                self._broken.add(resolved)
                raise
        file, master = self._read[resolved]
        # Units of one file are of one model: what it builds to know itself is built once for all of them.
        key = (resolved, engine, flatten)
        return self._made.setdefault(key, Nested(file.scenario, master, engine, flatten))

    def _file(self, path: Path, chain: tuple[Path, ...]) -> tuple[ScenarioFile, Master]:
        found: list[Master] = []

        def also(file: ScenarioFile, problems: Problems) -> None:
            sound = not problems.found
            master = master_from(file.master, problems, usual=default_pace(file.scenario if sound else None))
            if master is None or not sound:
                return
            try:
                master.program(file.scenario)
            except InvalidInput as error:
                problems.add(("master",), str(error))
            found.append(master)

        nest = _Inside(self, (*chain, path))
        return read_scenario(path, allow_python=self._allow_python, also=also, nest=nest), found[0]


def _path(given: object, folder: Path | None) -> Path:
    if not isinstance(given, str) or not given.endswith(".toml") or "\0" in given:
        raise InvalidInput(f'scenario must name a file, such as "car.toml", not {given!r}')
    if Path(given).is_absolute():
        raise InvalidInput(f"scenario must name a file relative to this one, not {given!r}")
    if folder is None:
        raise InvalidInput(f"there is no folder in which to look for {given!r}")
    return folder / given


def nested_table(name: str, model: Model, path: Path) -> dict[str, Any] | None:
    """The table of a nested unit in the file `path`, after its scenario was written next to it."""
    apart = taken_apart(model)
    if apart is not None:
        inner, given = apart
        return {**(nested_table(name, inner, path) or table_of(name, inner)), ADAPT: given}
    if isinstance(model, Nested) and model.adaptation is not None:
        from upbeat.engine.formats.sa import sa_table  # few scenarios have any

        def inside(unit: str, one: Model) -> Mapping[str, Any]:
            return nested_table(f"{name}.{unit}", one, path) or table_of(unit, one)

        made = sa_table(model, path.parent, inside)
        if made is not None:
            return made
        raise InvalidInput(
            f"the adapted unit '{name}' cannot be written: it was made in Python. Write it as a .sa file"
        )
    if type(model) is not Nested:
        return None
    beside = path.with_name(f"{path.stem}_{name}.toml")
    if beside.exists() and not _nests(path, name, beside):
        raise InvalidInput(
            f"the scenario of unit '{name}' belongs into {beside}, but there is such a file, and {path} does "
            "not nest it. Remove it, or write to a file of another name."
        )
    file = ScenarioFile(model.scenario, master=master_table(model.master))
    files.write_scenario(file, beside, lambda unit, inner: nested_table(unit, inner, beside))
    table: dict[str, Any] = {"scenario": beside.name}
    if model.engine != "auto":
        table["engine"] = model.engine
    if not model.flatten:
        table["flatten"] = False
    return table


def _nests(path: Path, name: str, beside: Path) -> bool:
    """Whether the file that is there now nests `beside`: then both are written again."""
    try:
        unit = tomllib.loads(path.read_text(encoding="utf-8"))["units"][name]
        return bool(unit["scenario"] == beside.name)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def master_table(master: Master) -> dict[str, Any]:
    """The master in the words of a file."""
    table = settings_of(master)
    if master_from(table, Problems()) != master:
        raise InvalidInput(f"{master} cannot be written to a file: it has parts that a file has no word for")
    return table
