"""Scenario files: TOML in, TOML out. Reading one never executes code.

    upbeat = 1                                  # the version of the format
    name = "two masses"

    [models.mass]                               # a model to be used by several units
    states = { x = "v", v = "(F - c*x)/m" }     # states: an ode; without them: a function
    inputs = { F = { unit = "N" } }
    outputs = ["x"]
    parameters = { m = 1.0, c = 1.0 }

    [units.left]
    model = "mass"                              # with its own values:
    parameters = { m = 2.0 }
    start = { x = 1.0 }

    [units.right]                               # or with equations of its own
    outputs = { F = "-k*u" }
    inputs = ["u"]
    parameters = { k = 3.0 }

    [units.trailer]                             # or another scenario, with the master of its own file
    scenario = "trailer.toml"

    [connections]                               # input = expression over outputs and scenario inputs
    left.F = "right.F + push"
    right.u = "left.x"
                                                # or, of event inputs, as `upbeat.scenario.events.links` says
    [inputs]                                    # of the scenario itself
    push = { unit = "N", start = 0.0 }

    [outputs]
    load = { value = "right.F", unit = "kN" }

    [events.touch]                              # between units, see `upbeat.scenario.events.declared`
    when = "left.x > 2.0 and left.v > 0"
    then = { left.v = "-left.v" }

    [properties]                                # of its results, see `upbeat.scenario.properties`
    near = "always(left.x < 3)"

    [hints]                                     # what is known about it, see `upbeat.hints`
    calm = "smooth(left.x)"

    [master]                                    # checked by the master, the loop and the recorder
    step = 0.01
    [run]
    until = 10.0
    [record]
    signals = ["left.*"]

A unit or model has a `kind` ("ode", "function" or "python", see `upbeat.scenario.files.python_models`),
`states`, `start`, `inputs`, `outputs`, `parameters`, `locals`, `tables`, `solver`: all that
`upbeat.units.equations.spec` reads.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.errors import (
    MAX_PROBLEMS,
    FileProblem,
    Problem,
    Problems,
    ScenarioError,
    TooManyProblems,
    cannot_read,
    cannot_write,
    suggest,
)
from upbeat.core.records import dataclass
from upbeat.scenario.assemble import Sections, assemble, with_values
from upbeat.scenario.connection import pairs_of
from upbeat.scenario.files.definitions import MAX_EVENTS, Definitions, Nest
from upbeat.scenario.files.fmu_models import fmu_table
from upbeat.scenario.files.toml import KEYS, Lines
from upbeat.scenario.scenario import Scenario

if TYPE_CHECKING:
    from upbeat.scenario.files.written import Special

# ----------------------------------------------------------------------------------------------------

VERSION = 1
MAX_ENTRIES = 15_000
"""Keys with values, and texts in lists: more than anybody writes, and looked at in seconds."""
LARGEST = 10_000_000
"""In bytes. A file that is larger is not a scenario; its data belong into a CSV file."""

_TABLES = KEYS[2:]  # after the version and the name


@dataclass(frozen=True)
class ScenarioFile:
    """What a file says: the scenario, and the settings for the layers above as plain tables."""

    scenario: Scenario
    master: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="", compare=False)
    lines: Lines | None = field(default=None, compare=False, repr=False)

    def locate(self, problem: Problem) -> Problem:
        """The problem with the line of the key that it is about."""
        return _locate(problem, self.lines)

    def located(self, problems: Problems) -> ScenarioError:
        """All problems with their lines, as an error to raise."""
        return _located(problems, self.source, self.lines)


Also = Callable[[ScenarioFile, Problems], None]


# -------------------------------------------------------------------- reading


def read_scenario(
    path: str | Path,
    *,
    allow_python: bool = False,
    values: Mapping[str, Any] | None = None,
    also: Also | None = None,
    nest: Nest | None = None,
) -> ScenarioFile:
    """The scenario in a file. All its problems are reported together, with their lines.

    `values` overrides parameters and start values: ``{"left.m": 2.0}``. `also` lets a layer above report
    what is wrong with its settings in the same go; the scenario that it sees may be incomplete.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise FileProblem(
                f"{path}: is larger than {LARGEST / 1e6:.0f} MB, which no scenario needs. "
                "Put long tables of data into a CSV file and use --input"
            )
        with path.open("rb") as file:  # a pipe will do, too; a device that never ends, up to here
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise FileProblem(f"{path}: does not end after {LARGEST / 1e6:.0f} MB, as a scenario would")
    except OSError as error:
        raise cannot_read(path, error) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileProblem(f"{path}: line {line}: is not a text in UTF-8; save it as UTF-8") from None
    return read_text(
        text,
        source=str(path),
        allow_python=allow_python,
        values=values,
        folder=path.parent,
        also=also,
        nest=nest,
    )


def has_table(path: Path, name: Literal["study", "hints"]) -> bool:
    """Whether a file that has been read is a scenario with a table that is for a layer above."""
    return path.suffix == ".toml" and name in tomllib.loads(path.read_text(encoding="utf-8-sig"))


def read_text(
    text: str,
    *,
    source: str = "",
    allow_python: bool = False,
    values: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    also: Also | None = None,
    nest: Nest | None = None,
) -> ScenarioFile:
    """The scenario in a text; Python modules that it names are looked for in `folder`."""
    content = parse(text, source or "the text")
    problems = Problems()
    try:
        definitions = partial(Definitions, allow_python=allow_python, folder=folder, nest=nest)
        return _read(content, ScenarioOrigin(source, Lines(text)), problems, definitions, values or {}, also)
    except TooManyProblems:
        raise _located(problems, source, Lines(text)) from None


class ScenarioOrigin(NamedTuple):
    """The name of a text, and where in it is what."""

    source: str
    lines: Lines


def _read(
    content: Mapping[str, Any],
    origin: ScenarioOrigin,
    problems: Problems,
    defined: Callable[[Mapping[str, Any], Problems], Definitions],
    values: Mapping[str, Any],
    also: Also | None,
) -> ScenarioFile:
    tables = _tables(content, problems)
    definitions = defined(tables["models"], problems)
    made = {name: definitions.unit(name, table) for name, table in tables["units"].items()}
    if len(tables["events"]) > MAX_EVENTS:
        hint = f"A scenario in a file has at most {MAX_EVENTS:,}. Scenarios in Python may have more."
        problems.add(("events",), f"there are {len(tables['events']):,} events", hint)
    if definitions.full or len(tables["events"]) > MAX_EVENTS:
        raise _located(problems, *origin)
    definitions.unused()
    units = {name: model for name, model in made.items() if model is not None}
    broken = made.keys() - units.keys()
    pairs = list(pairs_of(tables["connections"]))
    if not made:
        problems.add(
            ("units",), "the file has no units", 'Add at least one: [units.left] with states = { x = "-x" }.'
        )
        broken = {""}
    sections = Sections(
        units,
        pairs,
        tables["inputs"],
        tables["outputs"],
        events=tables["events"] or None,
        properties=tables["properties"] or None,
        structures=tables["structures"] or None,
    )
    parts = assemble(sections, problems, broken)
    if values:
        parts = with_values(parts, values, problems, broken)
    scenario = Scenario.from_parts(parts, content.get("name", ""))
    file = ScenarioFile(scenario, tables["master"], tables["run"], tables["record"], *origin)
    if also is not None:
        also(file, problems)
    if problems.found:
        raise file.located(problems)
    return file


_BEYOND = 10**308
_DEEPEST = 50
_DEEP = re.compile(r"""(?<![\w-])(?>(?>[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){50}""")


def parse(text: str, source: str) -> dict[str, Any]:
    """The tables of a TOML text, whatever it holds: numbers are within range, and tables not too deep."""
    if deep := _DEEP.search(text):  # tables in tables: the memory of tomllib grows with their square
        line = text.count("\n", 0, deep.start()) + 1
        raise FileProblem(f"{source}: line {line}: a key of more than 50 parts is nested too deeply")
    content = _parsed(text, source)
    beyond, entries = [], 0
    for path, value in _leaves(content):
        if len(path) > _DEEPEST:
            raise FileProblem(
                f"{source}: [{' › '.join(path[:3])}] is nested more than {_DEEPEST} levels deep"
            )
        if isinstance(value, int) and abs(value) >= _BEYOND:
            beyond.append(path)
        if isinstance(value, str):
            entries += 1 + len(value) // 50  # long texts are many in one
        else:
            entries += not path[-1].isdigit()  # the numbers of long lists do not count
    if entries > MAX_ENTRIES:
        raise FileProblem(
            f"{source}: has {entries:,} entries, and a scenario file may have {MAX_ENTRIES:,}. Put parts of "
            "it into files of their own (units with a scenario), and long tables of data into a CSV file"
        )
    if beyond:
        problems = Problems()
        for path in beyond:
            problems.add(path, "the number is too large for a real", "A real goes up to 1.79e308.")
        raise _located(problems, source, Lines(text))
    return content


def _leaves(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All values that are neither tables nor lists, with their keys."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), content)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > _DEEPEST:
            yield path, value
        elif isinstance(value, dict):
            waiting += [((*path, key), entry) for key, entry in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, str(index)), entry) for index, entry in enumerate(value)]
        else:
            yield path, value


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(str(error), text, source) from None
    except ValueError:  # the limit of Python on digits
        raise FileProblem(f"{source}: contains a number with thousands of digits") from None
    except RecursionError:
        raise FileProblem(f"{source}: is nested too deeply to be a scenario") from None


def _syntax(message: str, text: str, source: str) -> FileProblem:
    what, _, _ = message.partition(" (at ")
    rows = text.split("\n")
    place = re.search(r"at line (\d+), column (\d+)", message)
    if place is None:
        last = max((i for i, row in enumerate(rows, 1) if row.strip()), default=1)
        return FileProblem(
            f"{source}: line {last}: {what}: the file ends too early, as if it had been cut off\n"
            f"    {rows[last - 1][:100]}"
        )
    line, column = int(place[1]), int(place[2])
    hint = ""
    if "overwrite" in what or "declare" in what:
        hint = (
            "\n    The same key or table is there twice. An input has one source: to combine two, "
            'write an expression, such as "left.F" = "a.y + b.y".'
        )
    first = max(0, column - 60)
    pointer = f"    {rows[line - 1][first : first + 100]}\n    {' ' * (column - 1 - first)}^"
    return FileProblem(f"{source}: line {line}, column {column}: {what}\n{pointer}{hint}")


def _tables(content: Mapping[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    """The tables of a file, all there and all tables; with complaints about everything else."""
    for key in content:
        if key not in KEYS:
            problems.add((key,), f"unknown key '{key}'", suggest(key, KEYS, "keys"))
    version = content.get("upbeat", VERSION)
    if version != VERSION or isinstance(version, bool):
        problems.add(
            ("upbeat",),
            f"this is version {version!r} of the format, and this Upbeat reads version {VERSION}",
            "Install a newer Upbeat (pip install -U upbeat), or write upbeat = 1.",
        )
    if not isinstance(content.get("name", ""), str):
        problems.add(("name",), "the name must be a text", 'Write name = "…".')
    tables: dict[str, dict[str, Any]] = {}
    for key in _TABLES:
        table = content.get(key, {})
        if not isinstance(table, dict):
            problems.add(
                (key,), f"'{key}' must be a table, not {table!r}", f"Write [{key}] on a line of its own."
            )
            table = {}
        tables[key] = table
    return tables


def _locate(problem: Problem, lines: Lines | None) -> Problem:
    return problem if lines is None else replace(problem, line=lines.of(problem.where))


def _located(problems: Problems, source: str, lines: Lines | None) -> ScenarioError:
    found = [_locate(problem, lines) for problem in problems.found]
    found[:MAX_PROBLEMS] = sorted(found[:MAX_PROBLEMS], key=lambda problem: problem.line or 0)
    return ScenarioError(found, source)


# -------------------------------------------------------------------- writing


def write_scenario(what: ScenarioFile | Scenario, path: str | Path, special: Special | None = None) -> None:
    """Write a file that `read_scenario` reads back as an equal scenario.

    FMUs stay where they are: the file names them relative to its own place.
    """
    folder = Path(path).parent

    def placed(name: str, model: Model) -> dict[str, Any] | None:
        return (special and special(name, model)) or fmu_table(model, folder)

    text = scenario_text(what, placed)
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise cannot_write(path, error) from None


def scenario_text(what: ScenarioFile | Scenario, special: Special | None = None) -> str:
    """The text of a scenario file; `special` gives the tables of models that only layers above know."""
    from upbeat.scenario.files.toml import toml_text
    from upbeat.scenario.files.written import scenario_tables

    file = what if isinstance(what, ScenarioFile) else ScenarioFile(what)
    settings = {"master": file.master, "run": file.run, "record": file.record}
    return toml_text({"upbeat": VERSION, **scenario_tables(file.scenario, special), **settings})
