"""Looking at a scenario: what the page shows of a text, whether it is right or not.

This runs in a process of its own (`upbeat.studio.child`): the text may name Python units, and FMUs are looked
into. Nothing here changes a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Never, Self

from upbeat.core.abilities import Ability, Model, why_fixed
from upbeat.core.errors import FileProblem, InvalidInput, Problem, Problems, UpbeatError, problems_of
from upbeat.core.measure import MeasureError, conversion
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.files import completed
from upbeat.engine.formats.nested import nesting
from upbeat.engine.nesting.model import kind_name, nested_of
from upbeat.engine.remarks import unit_problems
from upbeat.report.diagram import Box, Diagram, Wire, arrange
from upbeat.report.explain import left_alone, master_lines
from upbeat.scenario.assemble import Sections, assemble
from upbeat.scenario.connection import connect
from upbeat.scenario.directory import Directory, Unclear, Wrong
from upbeat.scenario.events.links import connect_event
from upbeat.scenario.files.reading import ScenarioFile, parse, read_text
from upbeat.scenario.files.toml import Keys, Lines
from upbeat.scenario.scenario import Scenario
from upbeat.studio.edits import connection_keys, connections, edited
from upbeat.studio.project import Refused, outside
from upbeat.units.process import bare
from upbeat.units.solving.solvers import solver_of, solver_spec

MAX_FIXES = 8
"""So many problems get suggestions that have been tried out."""


@dataclass
class Reading:
    """A text as far as it could be read."""

    text: str
    path: Path
    content: dict[str, Any]
    lines: Lines
    scenario: Scenario | None = None
    experiment: Experiment | None = None
    problems: tuple[Problem, ...] = ()
    written: bool = True
    """Whether there is a text; what an adapted unit is made of has none."""

    @property
    def ok(self) -> bool:
        """Whether it could be run."""
        return self.experiment is not None


def read(path: Path, text: str, *, python: bool, root: Path) -> Reading:
    """A scenario with its problems, or its experiment. Nothing outside of the folder `root` is read."""
    found = Reading(text, path, {}, Lines(text))
    try:
        found.content = parse(text, path.name)
    except InvalidInput as error:
        found.problems = tuple(map(_placed, problems_of(error)))
        return found
    if beyond := outside(text, path, root):
        found.problems = tuple(beyond)
        return found
    made: list[Experiment] = []

    def also(file: ScenarioFile, problems: Problems) -> None:
        found.scenario = file.scenario
        made.append(completed(file, {}, problems, writing=False))

    try:
        read_text(
            text,
            source=path.name,
            allow_python=python,
            folder=path.parent,
            also=also,
            nest=nesting(path, python),
        )
    except UpbeatError as error:
        found.problems = tuple(map(_placed, problems_of(error)))
        return found
    found.experiment = made[0].with_(file=path)
    try:
        wrong = unit_problems(found.experiment.scenario)
        found.problems = tuple(
            Problem(one.where, one.what, one.hint, one.line or found.lines.of(one.where)) for one in wrong
        )
        found.experiment.choice  # noqa: B018  # an engine that cannot run it is a problem, too
        found.experiment.scenario.check_measures()
        found.experiment.check_structures()
    except UpbeatError as error:
        found.problems = (*found.problems, *map(_placed, problems_of(error)))
    return found


_PLACE = re.compile(r"line (\d+)(?:, column (\d+))?: ")


def _placed(problem: Problem) -> Problem:
    """Errors of TOML say in words where they are."""
    place = _PLACE.search(problem.what) if problem.line is None and not problem.where else None
    if place is None:
        return problem
    what = problem.what[place.end() :].partition("\n")[0]
    return Problem((), what, problem.hint, int(place[1]), int(place[2]) if place[2] else None)


_SMALL = """[units.a]
states = { x = { der = "u - x", unit = "m" } }
inputs = { u = { unit = "mm/s" } }
outputs = ["x"]
[inputs]
push = { start = 0.0, unit = "m/s" }
[connections]
"a.u" = "push"
[master]
step = 0.1
[run]
until = 1.0
"""


def warm() -> None:
    """Load all that a view needs, units of measure included: that takes longer than most views."""
    view({}, Path("small.toml"), _SMALL, python=False, root=Path())


# ----------------------------------------------------------------------------------------------------
# The view.


def view(given: Mapping[str, Any], path: Path, text: str, *, python: bool, root: Path) -> dict[str, Any]:
    """All that the page shows of a scenario."""
    found = _entered(list(given.get("inside") or []), path, text, python=python, root=root)
    scenario, experiment = found.scenario, found.experiment
    severe = [_problem(found, one, "error") for one in found.problems]
    for shown, one in list(zip(severe, found.problems, strict=True))[:MAX_FIXES]:
        shown["fixes"] = fixes(found, one, python=python, root=root)
    problems = [*severe, *(_remarks(found, experiment) if experiment is not None and not severe else ())]
    counts: dict[str, int] = {}
    for shown in problems:
        if shown["unit"] is not None and shown["severity"] != "note":
            counts[shown["unit"]] = counts.get(shown["unit"], 0) + 1
    content = found.content
    master: dict[str, Any] = {
        "written": _table(content, "master"),
        "explained": [],
        "order": None,
        "cores": None,
    }
    if experiment is not None:
        master["explained"] = _tried(lambda: master_lines(experiment), [])
    if scenario is not None and given.get("order"):
        master["order"] = _tried(lambda: order(scenario), None)
    if experiment is not None and given.get("cores"):
        cores = int(given["cores"])
        master["cores"] = _tried(lambda: assignment(experiment, cores), None)
    return {
        "path": str(found.path) if found.written else None,
        "text": found.text if given.get("inside") else None,
        "problems": problems,
        "diagram": None if scenario is None else _tried(lambda: _diagram(found, given), None),
        "loops": [] if scenario is None else _tried(lambda: _loops(scenario), []),
        "units": _units(found, counts),
        "connections": [
            {"target": target, "text": value, "line": found.lines.of(keys)}
            for keys, target, value in connections(content)
        ],
        "inputs": [] if scenario is None else _inputs(found, scenario),
        "outputs": _named(content, "outputs", found.lines),
        "free": [] if scenario is None else _tried(lambda: _free(scenario), []),
        "events": [
            {"name": name, "when": table.get("when"), "then": table.get("then"), "line": line}
            for name, table, line in _tables(content, "events", found.lines)
        ],
        "structures": [
            {
                "name": name,
                "units": table.get("units", []),
                "events": [
                    {"name": event, "when": one.get("when"), "to": one.get("to"), "line": place}
                    for event, one, place in _within(table, ("structures", name, "events"), found.lines)
                ],
                "line": line,
            }
            for name, table, line in _tables(content, "structures", found.lines)
        ],
        "properties": _named(content, "properties", found.lines),
        "master": master,
        "run": _table(content, "run"),
        "record": _table(content, "record"),
        "name": content.get("name") if isinstance(content.get("name"), str) else "",
        "models": list(_table(content, "models")),
        "study": "study" in content,
    }


def _tried(make: Callable[[], Any], otherwise: Any) -> Any:
    """What can be said of a scenario that is not complete, or nothing."""
    try:
        return make()
    except (UpbeatError, LookupError, ValueError, TypeError, AttributeError, Wrong, Unclear, ArithmeticError):
        return otherwise


def _table(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key)
    return dict(found) if isinstance(found, Mapping) else {}


def _tables(
    content: Mapping[str, Any], key: str, lines: Lines
) -> Iterator[tuple[str, Mapping[str, Any], int | None]]:
    yield from _within(content, (key,), lines)


def _within(
    content: Mapping[str, Any], keys: Keys, lines: Lines
) -> Iterator[tuple[str, Mapping[str, Any], int | None]]:
    """The tables in one that has the last of these keys, with their lines."""
    for name, table in _table(content, keys[-1]).items():
        if isinstance(table, Mapping):
            yield name, table, lines.of((*keys, name))


def _named(content: Mapping[str, Any], key: str, lines: Lines) -> list[dict[str, Any]]:
    return [
        {"name": name, "text": value, "line": lines.of((key, name))}
        for name, value in _table(content, key).items()
    ]


def _entered(inside: list[str], path: Path, text: str, *, python: bool, root: Path) -> Reading:
    """The scenario behind the names of units on the way to it: of files, or of what a unit is made of."""
    found = None
    for name in map(str, inside):
        file = _scenario_of(parse(text, path.name), name) if found is None else None
        if file is not None:
            path, text = _nested(path, file, name, root)
            continue
        found = found or read(path, text, python=python, root=root)
        model = None if found.scenario is None else found.scenario.units.get(name)
        inner = None if model is None else nested_of(bare(model))
        if inner is None:
            raise InvalidInput(f"'{name}' is not a unit with a scenario inside")
        found = Reading("", path, {}, Lines(""), inner.scenario, written=False)
    return found or read(path, text, python=python, root=root)


def _scenario_of(content: Mapping[str, Any], name: str) -> str | None:
    """The file of a unit with a scenario."""
    table = _table(content, "units").get(str(name))
    if isinstance(table, Mapping) and "model" in table:
        table = _table(content, "models").get(str(table["model"]))
    file = table.get("scenario") if isinstance(table, Mapping) else None
    return file if isinstance(file, str) else None


def _nested(path: Path, inner: str, name: str, root: Path) -> tuple[Path, str]:
    """A nested scenario: its file and its text."""
    file = path.parent / inner
    if not file.resolve().is_relative_to(root):
        raise Refused(f"'{inner}' lies outside of the project folder")
    try:
        return file, file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise FileProblem(f"cannot read '{inner}', the scenario inside '{name}'") from None


def _diagram(found: Reading, given: Mapping[str, Any]) -> dict[str, Any]:
    assert found.scenario is not None
    places = {str(key): (float(x), float(y)) for key, (x, y) in (given.get("places") or {}).items()}
    before = diagram_from(given["before"]) if given.get("before") else None
    missing = _table(found.content, "units").keys() - found.scenario.units.keys()
    whole = _tried(lambda: _sketch(found), found.scenario) if missing else found.scenario
    made = arrange(
        found.experiment if found.experiment is not None else whole,
        every_port=bool(given.get("every_port")),
        places=places or None,
        before=before,
    ).to_data()
    for box in made["boxes"]:
        if box["key"] in missing:
            box["lines"] = [_written_kind(_whole_table(found.content, box["name"]))]
            box["tooltip"] = ""
    return made


@dataclass(frozen=True)
class _StandIn:
    """Has the place of a unit that could not be made in the diagram."""

    ports: tuple[Port, ...]
    abilities: frozenset[Ability] = frozenset(Ability)

    @property
    def changeable(self) -> Mapping[str, Port]:
        """For events, whatever they change."""
        return {port.name: port for port in self.ports}

    def instantiate(self, name: str, start: float) -> Never:
        raise NotImplementedError

    def with_values(self, values: Mapping[str, Any]) -> Self:
        return self


def _sketch(found: Reading) -> Scenario:
    """The scenario with all units that are written, also those that could not be made.

    These have the ports that are written and those that connections speak of, so that neither they nor
    their wires leave the diagram while somebody types.
    """
    assert found.scenario is not None
    content = found.content
    wires = [(target, value) for _, target, value in connections(content)]
    units: dict[str, Model] = {}
    for name in _table(content, "units"):
        units[name] = found.scenario.units.get(name) or _stand_in(name, content, wires)
    sections = Sections(
        units, wires, content.get("inputs", ()), _table(content, "outputs"), events=content.get("events")
    )
    return Scenario.from_parts(assemble(sections, Problems()), "")


def _whole_table(content: Mapping[str, Any], unit: str) -> Mapping[str, Any]:
    """What is written of a unit, its model included."""
    table = _table(_table(content, "units"), unit)
    model = table.get("model")
    return {**_table(_table(content, "models"), model), **table} if isinstance(model, str) else table


def _stand_in(unit: str, content: Mapping[str, Any], wires: Sequence[tuple[str, Any]]) -> _StandIn:
    table = _whole_table(content, unit)
    ports: dict[str, Port] = {}

    def add(name: str, side: Causality, written: Any = None) -> None:
        kind = written.get("kind") if isinstance(written, Mapping) else None
        known = Kind(kind) if kind in set(Kind) else Kind.REAL
        ports.setdefault(name, Port(name, side, known))

    for key, side in (
        ("inputs", Causality.INPUT),
        ("states", Causality.OUTPUT),
        ("outputs", Causality.OUTPUT),
    ):
        entries = table.get(key)
        if isinstance(entries, Mapping):
            for name, written in entries.items():
                add(name, side, written)
        elif isinstance(entries, list):
            for name in filter(lambda entry: isinstance(entry, str), entries):
                add(name, side)
    for target, value in wires:
        to, _, port = target.partition(".")
        if to == unit and port:
            add(port, Causality.INPUT)
        for name in re.findall(rf"(?<![\w.]){re.escape(unit)}\.(\w+)", str(value)):
            add(name, Causality.OUTPUT)
    return _StandIn(tuple(ports.values()))


def diagram_from(data: Mapping[str, Any]) -> Diagram:
    """What `Diagram.to_data` gave; only what is needed to let wires stay where they are."""
    wires = tuple(
        Wire(
            str(wire["source"]), str(wire["target"]), str(wire["kind"]),
            tuple((float(x), float(y)) for x, y in wire["points"]), "",
        )
        for wire in data["wires"]
    )  # fmt: skip
    boxes: tuple[Box, ...] = ()
    return Diagram(float(data["width"]), float(data["height"]), boxes, wires, bool(data["detailed"]))


def _loops(scenario: Scenario) -> list[list[str]]:
    return [[f"{unit}.{port}" for _, unit, port in loop] for loop in scenario.graph.loops]


def order(scenario: Scenario) -> list[list[str]]:
    """In which order ports are computed at one instant; those of an algebraic loop together."""
    of = {node: number for number, loop in enumerate(scenario.graph.loops) for node in loop}
    found: list[list[str]] = []
    last: int | None = None
    for node in scenario.graph.order:
        name, loop = f"{node[1]}.{node[2]}", of.get(node)
        if loop is not None and loop == last:
            found[-1].append(name)
        else:
            found.append([name])
        last = loop
    return found


def assignment(experiment: Experiment, cores: int) -> dict[str, int]:
    """On which of several cores each unit would mostly be, by the operations that it takes part in."""
    from upbeat.studio.judging import bars

    time: dict[str, dict[int, float]] = {}
    for bar in bars(experiment, cores)["bars"]:
        if bar["unit"]:
            spent = time.setdefault(bar["unit"], {})
            spent[bar["core"]] = spent.get(bar["core"], 0.0) + bar["end"] - bar["begin"]
    return {unit: max(spent, key=lambda core: spent[core]) for unit, spent in time.items()}


def _inputs(found: Reading, scenario: Scenario) -> list[dict[str, Any]]:
    """The scenario's own inputs, and where in the text their start values are."""
    written = _table(found.content, "inputs")
    return [
        _port(port, None, None)
        | {
            "line": found.lines.of(("inputs", port.name)),
            "at": ["inputs", port.name, *(["start"] if isinstance(written.get(port.name), Mapping) else [])],
        }
        for port in scenario.inputs
    ]


def _free(scenario: Scenario) -> list[dict[str, Any]]:
    """What nothing drives: inputs of units and of the scenario."""
    return [
        _port(port, None, None) | {"name": name}
        for name, (_, port) in scenario.free_inputs.items()
        if not port.event
    ]


# ----------------------------------------------------------------------------------------------------
# Units and their ports.


def _units(found: Reading, counts: Mapping[str, int]) -> dict[str, Any]:
    """Every unit that is written, also those that could not be made."""
    scenario, shown = found.scenario, {}
    models = _table(found.content, "models")
    units = _table(found.content, "units") if found.written or scenario is None else dict(scenario.units)
    for name, table in units.items():
        written = table if isinstance(table, Mapping) else {}
        model = scenario.units.get(name) if scenario is not None else None
        base = models.get(written["model"], {}) if isinstance(written.get("model"), str) else {}
        entry: dict[str, Any] = {
            "kind": _written_kind(_whole_table(found.content, name)) if found.written else "",
            "title": "",
            "written": dict(written),
            "inputs": [], "outputs": [], "parameters": [], "states": [],
            "adapt": _adaptations(written),
            "rate": None,
            "isolation": written.get("isolation"),
            "line": found.lines.of(("units", name)),
            "problems": counts.get(name, 0),
        }  # fmt: skip
        if scenario is not None and model is not None:
            entry |= _tried(partial(_described, scenario, name, model, written, base), {})
        shown[name] = entry
    return shown


def _adaptations(written: Mapping[str, Any]) -> list[Any]:
    given = written.get("adapt", [])
    return given if isinstance(given, list) else [given]


_MARKS = {"transitions": "state_machine", "states": "ode", "scenario": "scenario", "sa": "sa", "file": "fmu"}


def _written_kind(table: Mapping[str, Any]) -> str:
    if isinstance(table.get("kind"), str):
        return str(table["kind"])
    return next((kind for key, kind in _MARKS.items() if key in table), "function")


def _described(
    scenario: Scenario, name: str, model: Model, written: Mapping[str, Any], base: Any
) -> dict[str, Any]:
    inner = bare(model)
    sides: dict[Causality, list[dict[str, Any]]] = {side: [] for side in Causality}
    for port in model.ports:
        if port.internal:
            continue
        tunable = None
        if port.causality is Causality.PARAMETER:
            tunable = (scenario.why_written(name, port.name) or why_fixed(model, port.name)) is None
        sides[port.causality].append(_port(port, tunable, written.get("parameters")))
    solver = solver_of(model)
    nested = nested_of(inner)
    return {
        "title": kind_name(inner),
        "inputs": sides[Causality.INPUT],
        "outputs": sides[Causality.OUTPUT],
        "parameters": sides[Causality.PARAMETER],
        "states": _states(model, base if isinstance(base, Mapping) else {}, written),
        "solver": None if solver is None else solver_spec(solver),
        "rollback": Ability.ROLLBACK in model.abilities,
        "inside": [] if nested is None else list(nested.scenario.units),
    }


def _port(port: Port, tunable: bool | None, written: Any) -> dict[str, Any]:
    value: Any = port.initial[0] if port.size is None else list(port.initial)
    if port.items and port.size is None and port.start is not None:
        value = port.labels.label(value)
    data = {
        "name": port.name,
        "unit": port.unit,
        "kind": "enumeration" if port.items else port.kind.value,
        "size": port.size,
        "start": None if port.event or port.causality is Causality.OUTPUT else value,
        "value": None if port.event or port.causality is Causality.OUTPUT else value,
        "description": port.description,
        "feedthrough": sorted(port.depends),
        "tunable": tunable,
    }
    if port.items:
        data["labels"] = list(port.items)
    if port.event:
        data["event"] = True
    if isinstance(written, Mapping):
        data["written"] = port.name in written
    return data


def _states(model: Model, base: Mapping[str, Any], written: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of equations, with what they start at."""
    equations = getattr(bare(model), "equations", None)
    given = {**_table(base, "states"), **_table(written, "states")}
    found = []
    for state in getattr(equations, "states", ()):
        rate = given.get(state.port.name)
        der = rate.get("der") if isinstance(rate, Mapping) else rate
        found.append(_port(state.port, None, written.get("start")) | {"der": der})
        found[-1]["start"] = found[-1]["value"] = (
            state.port.initial[0] if state.port.size is None else list(state.port.initial)
        )
    return found


# ----------------------------------------------------------------------------------------------------
# Problems, and what to do about them.


def _problem(found: Reading, problem: Problem, severity: str) -> dict[str, Any]:
    unit, port = _about(found, problem.where)
    message = sentence(problem.what, problem.hint)
    return {
        "message": message,
        "where": list(map(str, problem.where)),
        "line": problem.line,
        "column": problem.column,
        "unit": unit,
        "port": port,
        "severity": severity,
        "fixes": [],
    }


def sentence(what: str, hint: str = "") -> str:
    """What is wrong, and what to do about it."""
    return f"{what.rstrip('.')}. {hint}" if hint else what


def _about(found: Reading, where: Sequence[str]) -> tuple[str | None, str | None]:
    """The unit and the port that a problem is about, as far as that is said."""
    units = _table(found.content, "units")
    match tuple(map(str, where)):
        case ("units", unit, *rest):
            name = unit.partition(".")[0]
            return (name if name in units else None), (rest[1] if len(rest) > 1 else None)
        case ("connections", target, *_) | ("master", "ports", target, *_):
            unit, _, port = target.partition(".")
            return (unit if unit in units else None), port or None
    return None, None


def _remarks(found: Reading, experiment: Experiment) -> list[dict[str, Any]]:
    """What `upbeat check` says about a scenario without problems."""
    shown: list[dict[str, Any]] = []

    def say(text: str, severity: str, unit: str | None = None, port: str | None = None) -> None:
        one = _problem(found, Problem((), text), severity)
        line = found.lines.of(("units", unit)) if unit else None
        shown.append(one | {"unit": unit, "port": port, "line": line})

    for remark in _tried(lambda: experiment.remarks, ()):
        mentioned = [unit for unit in experiment.scenario.units if f"'{unit}'" in remark]
        say(remark, "warning", mentioned[0] if mentioned else None)
    for name, model in experiment.scenario.units.items():
        for note in getattr(model, "notes", ()):
            say(str(note).replace("UNIT.", f"{name}."), "note", name)
    for one in left_alone(experiment.scenario):
        unit, dot, port = one["input"].partition(".")
        say(
            f"nothing drives '{one['input']}': it stays at {one['value']}",
            "note", unit if dot else None, port if dot else None,
        )  # fmt: skip
    parts = experiment.structures.values() or (experiment,)
    lates = [_tried(partial(part.master.late, part.closed), None) for part in parts]
    for late in dict.fromkeys(filter(None, lates)):
        say(str(late), "note")
    return shown


_MEANT = re.compile(r"Did you mean ((?:'[^']*'(?: or )?)+)\?")
_QUOTED = re.compile(r"'([^']+)'")


def fixes(found: Reading, problem: Problem, *, python: bool, root: Path) -> list[dict[str, Any]]:
    """Edits that follow from the near names in a problem; each has been tried, and the problem was gone."""
    meant = _MEANT.search(problem.hint or problem.what)
    wrong = _QUOTED.search(problem.what)
    if meant is None or wrong is None or not problem.where:
        return []
    offered = []
    for name in _QUOTED.findall(meant[1]):
        edit = _replacing(found, tuple(map(str, problem.where)), wrong[1], name)
        if edit is None:
            continue
        try:
            text, _ = edited(found.text, [edit])
        except InvalidInput:
            continue
        again = read(found.path, text, python=python, root=root)
        left = {(one.where, one.what) for one in again.problems}
        here = {what for where, what in left if where == problem.where}
        if not here - {one.what for one in found.problems} and problem.what not in here:
            offered.append({"label": f"Write {name}", "edits": [edit]})
    return offered


def _replacing(found: Reading, where: Keys, wrong: str, name: str) -> dict[str, Any] | None:
    """The edit that writes `name` for the `wrong` word: within an expression, as a value, or as a key."""
    if where[0] == "connections" and len(where) > 1:
        where = (*(connection_keys(found.content, where[1]) or where[:2]), *where[2:])
    words = [(wrong, name)]
    if "." in wrong and "." not in name:  # a port is suggested for unit.port
        words.append((wrong, f"{wrong.partition('.')[0]}.{name}"))
    value: Any = found.content
    for depth, key in enumerate(where):
        inner = _step(value, key)
        if inner is None:
            for old, new in words:  # the key itself is said to be wrong, and is not found as a path
                if isinstance(value, Mapping) and old in value:
                    return {"op": "rename", "at": [*where[:depth], old], "to": new}
            return None
        value = inner
    for old, new in reversed(words):
        mention = re.compile(rf"(?<![\w.]){re.escape(old)}(?![\w.])")
        if isinstance(value, str) and mention.search(value):
            return {"op": "set", "at": list(where), "value": mention.sub(new, value)}
        if where[-1] == old:
            return {"op": "rename", "at": list(where), "to": new}
        unit, _, port = old.partition(".")
        if where[-2:] == (unit, port) and new.startswith(f"{unit}."):
            return {"op": "rename", "at": list(where), "to": new.partition(".")[2]}
        if isinstance(value, str) and value == old:
            return {"op": "set", "at": list(where), "value": new}
        if isinstance(value, Mapping) and old in value:
            return {"op": "rename", "at": [*where, old], "to": new}
        for key, entry in value.items() if isinstance(value, Mapping) else ():
            if isinstance(entry, str) and key != "kind" and mention.search(entry):
                return {"op": "set", "at": [*where, key], "value": mention.sub(new, entry)}
        if isinstance(value, Mapping) and value.get("kind") == old:
            return {"op": "set", "at": [*where, "kind"], "value": new}
    unit = wrong
    if where[-1].startswith(f"{unit}."):  # the unit of a target
        return {"op": "rename", "at": list(where), "to": f"{name}{where[-1].removeprefix(unit)}"}
    mention = re.compile(rf"(?<![\w.]){re.escape(unit)}(?=\.)")
    if isinstance(value, str) and mention.search(value):
        return {"op": "set", "at": list(where), "value": mention.sub(name, value)}
    return None


def _step(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list) and key.isdigit() and int(key) < len(value):
        return value[int(key)]
    return None


# ----------------------------------------------------------------------------------------------------
# Connecting: where a wire may go.


def targets(source: str, path: Path, text: str, *, python: bool, root: Path) -> dict[str, Any]:
    """For every input, whether `source` fits there: kind, size and unit of measure."""
    found = read(path, text, python=python, root=root)
    if found.scenario is None:
        raise InvalidInput("the scenario cannot be read yet: correct what is wrong with it first")
    directory = Directory(found.scenario.units, found.scenario.inputs)
    driven = {target for _, target, _ in connections(found.content)}
    shown: dict[str, Any] = {}
    try:
        port = directory.source(source).port
    except (Wrong, Unclear) as error:
        raise InvalidInput(f"nothing can be connected to '{source}': {error}") from None
    for unit, model in found.scenario.units.items():
        for to in model.ports:
            if to.causality is not Causality.INPUT or to.internal:
                continue
            target = f"{unit}.{to.name}"
            try:
                fit(target, source, directory)
            except Wrong as wrong:
                shown[target] = {"ok": False, "why": sentence(wrong.what, wrong.hint), "note": None}
                continue
            except Unclear:
                shown[target] = {"ok": False, "why": "a unit of measure in it does not exist", "note": None}
                continue
            note = _converted(port, to)
            if target in driven:
                note = f"{note}; replaces what is connected" if note else "replaces what is connected"
            shown[target] = {"ok": True, "why": None, "note": note}
    return {"targets": shown}


def fit(target: str, source: str, directory: Directory) -> None:
    """`Wrong` if a signal or an event cannot be connected to an input, `Unclear` if that cannot be said."""
    _, port = directory.target(target)
    (connect_event if port.event else connect)(target, source, directory)


def _converted(source: Port, to: Port) -> str | None:
    """What becomes of the unit of measure."""
    if source.unit and to.unit and source.unit != to.unit:
        try:
            conversion(source.unit, to.unit)
        except (MeasureError, InvalidInput):
            return None
        return f"{source.unit} → {to.unit}"
    if bool(source.unit) != bool(to.unit) and not source.event:
        return f"{source.unit or 'no unit'} → {to.unit or 'no unit'}, taken as it is"
    return None
