"""FMUs from scenarios: the model description, C in `sources` or the native core, and the archive.

A *source* FMU has the scenario as C, and a library compiled from it if there is a compiler. A *core* FMU has
the native core as its library, which reads the program from `resources`; inner FMUs lie there, too.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import UUID

from upbeat.core.abilities import FromFile
from upbeat.core.atomic import as_path, replace_file
from upbeat.core.errors import FileProblem, InvalidInput, cannot_read, check_type, suggest
from upbeat.core.ports import Kind, Value
from upbeat.engine.experiment import Experiment
from upbeat.engine.native.lower import KINDS
from upbeat.generate.compiling import compile_library, compiler
from upbeat.generate.description import (
    DISCARD,
    TERMINALS,
    Description2,
    Description3,
    Header,
    Scalar,
    scalars,
    terminals,
)
from upbeat.generate.export import (
    EquationsType,
    Exported,
    ExportedType,
    directional,
    exported,
    exported_equations,
    identifier,
)
from upbeat.generate.printing import block, comment, items, literal, paragraph, quoted, used
from upbeat.generate.program import Context
from upbeat.generate.tables import Bytes, Outside, VariableRow, WrittenCore, scenario_bytes
from upbeat.trace.files.output import kept_from
from upbeat.units.equations.lowered import lower
from upbeat.units.fmi.archive import folder_of, key_of
from upbeat.units.fmi.library import Platform, chosen_library
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.xml import Element, document, element, read
from upbeat.units.process import bare
from upbeat.units.solving.solvers import DormandPrince
from upbeat.version import __version__

FmuKind = Literal["source", "core"]
_DATE = (1980, 1, 1, 0, 0, 0)
"""The same scenario gives the same bytes."""


class FmuExport(NamedTuple):
    """What was written."""

    path: Path
    kind: FmuKind
    fmi: int
    variables: Mapping[str, int]
    """How many there are: inputs, outputs, parameters, local."""
    library: str
    """The platform of its library; empty: there is none."""
    notes: tuple[str, ...]


def export_fmu(
    experiment: Experiment,
    path: str | PathLike[str],
    *,
    fmi: int = 2,
    kind: FmuKind | None = None,
    interface: str = "co-simulation",
    name: str = "",
    force: bool = False,
) -> FmuExport:
    """Write a scenario and its master as one FMU, which runs in hosts without Python.

    `fmi` is the version, 2 or 3. `kind` "source" has the scenario as C in the FMU, and a library if there is a C
    compiler; "core" has Upbeat's native core as its library, which needs no compiler, and runs FMUs inside.
    Left open, it is "source" unless there are FMUs inside. `interface` is "co-simulation" or, for scenarios of
    equations, "model-exchange". `name` is that of the model (default: of the scenario). A file that is there and
    that Upbeat has not exported is replaced with `force` only.

    Units and paces in Python cannot be exported: an `InvalidInput` names them.
    """
    check_type(experiment, Experiment, "experiment")
    target = as_path(path)
    if fmi not in (2, 3) or isinstance(fmi, bool):
        raise InvalidInput(f"there is no FMI version {fmi!r} to export: write 2 or 3")
    if kind not in (None, "source", "core"):
        raise InvalidInput(
            f"there is no kind {kind!r} of FMU. {suggest(str(kind), ('source', 'core'), 'kinds')}"
        )
    if interface not in ("co-simulation", "model-exchange"):
        known = ("co-simulation", "model-exchange")
        raise InvalidInput(
            f"there is no interface {interface!r}. {suggest(str(interface), known, 'interfaces')}"
        )
    if target.is_dir():
        raise FileProblem(f"'{target}' is a folder: give the FMU a name, such as '{target / 'scenario.fmu'}'")
    kept_from(target, _ours, "an FMU that Upbeat has exported", force=force)
    made = (
        exported(experiment, name) if interface == "co-simulation" else exported_equations(experiment, name)
    )
    if made.files and kind == "source":
        units = ", ".join(f"'{unit}'" for unit in made.files)
        raise InvalidInput(f'{units}: FMUs have no C to be printed. Export with kind "core" (--kind core).')
    return _Fmu(made, fmi, kind or ("core" if made.files else "source")).written(target)


def _ours(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive, archive.open("modelDescription.xml") as file:
            return b'generationTool="Upbeat ' in file.read(1 << 16)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError):
        return False


# ----------------------------------------------------------------------------------------------------


class _Fmu:
    def __init__(self, made: Exported, fmi: int, kind: FmuKind) -> None:
        self.made = made
        self.fmi = fmi
        self.kind = kind
        self.identifier = identifier(made.name)
        self.notes = list(made.notes)
        self.token = ""

    # ------------------------------------------------------------ variables

    @cached_property
    def scalars(self) -> list[Scalar]:
        """All variables in order; value reference 0 is the time, 1 in FMI 2 the parameter of discards."""
        return scalars(self.made.variables, 2 if self.discards else 1, arrays=self.fmi == 3)

    @property
    def discards(self) -> bool:
        """Whether the FMU has a parameter by which steps end at events."""
        return self.fmi == 2 and self.eventful and not self.exchange

    @property
    def exchange(self) -> bool:
        """Whether it is for model exchange."""
        return self.made.equations is not None

    @property
    def eventful(self) -> bool:
        """Whether something may happen at an instant."""
        return self.made.eventful

    # ------------------------------------------------------------ the archive

    def written(self, target: Path) -> FmuExport:
        content = self.files()
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in content.items():
                archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)
        replace_file(target, data.getvalue())
        libraries = [name for name in content if name.startswith("binaries/")]
        roles = [variable.role for variable in self.made.variables]
        counts = {
            "inputs": roles.count("input"),
            "outputs": sum(variable.is_output for variable in self.made.variables),
            "parameters": roles.count("parameter") + roles.count("tunable"),
            "local": roles.count("local") + roles.count("constant"),
            "states": roles.count("state"),
            "event indicators": roles.count("indicator"),
        }
        library = libraries[0].split("/")[1] if libraries else ""
        return FmuExport(target, self.kind, self.fmi, counts, library, tuple(self.notes))

    def files(self) -> dict[str, bytes]:
        """Everything in the archive, by name."""
        return self._source_files() if self.kind == "source" else self._core_files()

    @property
    def library_name(self) -> str:
        here = Platform.here()
        return f"binaries/{here.folders(self.fmi)[0]}/{self.identifier}{here.suffix}"

    def _token(self, *content: str | bytes) -> str:
        """What ties library and description together: it follows from what they say."""
        hashed = blake2b(digest_size=16)
        for part in (str(self.fmi), self.kind, self.identifier, repr(self.made.variables), *content):
            hashed.update(part.encode() if isinstance(part, str) else part)
        return f"{{{UUID(bytes=hashed.digest())}}}"

    # ------------------------------------------------------------ variables and their values, as scenario.h has them

    @cached_property
    def rows(self) -> list[tuple[str, VariableRow]]:
        """The variables by value reference, with their names."""
        found = [("time", VariableRow(ROLES["time"], 0, -1, 0, 1, 1, -1, -1))]
        if self.discards:
            found.append((DISCARD, VariableRow(ROLES["discard"], KINDS[Kind.BOOLEAN], -1, 0, 1, 1, -1, -1)))
        constants = len(self.made.values)
        for one in self.scalars:
            of = one.of
            value = of.value + one.cell if of.value >= 0 else -1
            if of.role == "constant":
                value, constants = constants, constants + one.cells
            numbers = of.number, one.cell, one.cells, of.port.cells, value, of.rate
            if of.role in ("state", "rate", "indicator"):
                numbers = of.number + one.cell, 0, one.cells, one.cells, value, -1
            found.append((one.name, VariableRow(ROLES[of.role], KINDS[of.port.kind], *numbers)))
        return found

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Model exchange: states, indicators, and the cells of inputs and outputs of directional derivatives."""
        if not self.exchange:
            return 0, 0, 0, 0
        of = self.made.variables
        states = sum(v.port.cells for v in of if v.role == "state")
        seeded = sum(v.port.cells for v in of if v.role == "input" and v.rate >= 0)
        seen = sum(v.port.cells for v in of if v.shown and v.rate >= 0)
        return states, sum(v.role == "indicator" for v in of), seeded, seen

    @cached_property
    def values(self) -> list[tuple[Kind, Value]]:
        """What the units start with, then constants."""
        found: list[tuple[Kind, Value]] = [(Kind.REAL, v) for v in self.made.values]
        for one in self.scalars:
            cells = [(one.of.port.kind, value) for value in one.start]
            if one.of.role == "constant":
                found += cells
            elif one.of.value >= 0:
                found[one.of.value + one.cell : one.of.value + one.cell + one.cells] = cells
        return found

    # ------------------------------------------------------------ as C

    def _source_files(self) -> dict[str, bytes]:
        sources = {name: text.encode() for name, text in self._sources().items()}
        found = {"modelDescription.xml": self.description()}
        found |= {f"sources/{name}": text for name, text in sources.items()}
        if self.fmi == 3:
            found["sources/buildDescription.xml"] = self.build_description()
        try:
            compiler()
        except InvalidInput as error:
            self.notes.append(f"it has no library, only sources: {error}")
        else:
            found[self.library_name] = compile_library(sources, "fmu.c")
        return found

    def _sources(self) -> dict[str, str]:
        context = Context(name="model", face="static ", explains=True)
        context.shared.need("unit")
        kind: ExportedType | EquationsType
        if self.exchange:
            kind = EquationsType(context, self.made, "model")
        else:
            kind = ExportedType(context, self.made, "model", moving=self.fmi == 2)
        own = kind.text()
        types = [one.text() for one in context.types.values()]
        about = paragraph(
            f"The scenario '{self.made.name}', generated by Upbeat {__version__}. Needs the C library's math (-lm). "
            "Compile without contraction of products and sums (-ffp-contract=off) to get the same numbers everywhere."
        )
        version = f"fmi{self.fmi}.c"
        ready = {name: _text(name) for name in ("scenario.h", "scenario.c", "instance.h", version)}
        parts = items("\n\n".join([context.shared.text(), *types, own]))
        program = "\n\n".join([about, "#define UPBEAT_GENERATED", *used([*parts], ready.values())]) + "\n"
        self.token = self._token(program)
        whole = "\n".join(
            [
                comment(f"The FMU '{self.made.name}': compile this file, which includes the others."),
                '#include "model.c"',
                '#include "scenario.h"',
                '#include "variables.c"',
                '#include "scenario.c"',
                f'#include "{version}"',
                "",
            ]
        )
        return {
            "fmu.c": whole,
            "model.c": program,
            "variables.c": self._tables(kind, tuple(context.strings)),
            **ready,
        }

    def _tables(self, kind: ExportedType | EquationsType, strings: Sequence[str]) -> str:
        rows = [f"{{{', '.join(map(str, row))}}}, {comment(name)}" for name, row in self.rows]
        values = [f"{{{_cell(value, kind)}}}," for kind, value in self.values]
        events = [*map(quoted, self.made.events), "0"]
        texts = [*map(quoted, strings), "0"]
        widest = max([1, *(port.cells for port in self.made.ports)])
        cells_of_events, room = 1, 1
        if isinstance(kind, ExportedType):
            cells_of_events = max([1, *(cells for _, cells in kind.printer.tables.events.values())])
            room = 2 * kind.printer.most_events() + 64
        return "\n".join(
            [
                comment("What the variables of the FMU are, by their value references (see scenario.h)."),
                "static const scenario_variable model_variables[] = {",
                *block(rows),
                "};",
                comment("Start values and parameters of all units; then constants."),
                "static const upbeat_cell model_values[] = {",
                *block([*values, "{.r = 0.0}"]),
                "};",
                f"static const char *const model_events[] = {{{', '.join(events)}}};",
                f"static const char *const model_texts[] = {{{', '.join(texts)}}};",
                "enum {",
                f"  model_text_count = {len(strings)},",
                f"  model_event_room = {room},",
                f"  model_value_room = {room * cells_of_events}",
                "};",
                f"#define MODEL_EXCHANGE {int(self.exchange)}",
                "static const scenario_description model_description = {",
                *block(
                    [
                        f"{quoted(self.token)},",
                        f"model_variables, {len(rows)},",
                        f"model_values, {len(values)},",
                        f"{widest}, {int(self.made.any_start)}, {literal(self.made.start)},",
                        f"{', '.join(map(str, self.counts))}",
                    ]
                ),
                "};",
                "",
            ]
        )

    # ------------------------------------------------------------ as tables for the core

    def _core_files(self) -> dict[str, bytes]:
        made, core, body = self.made, WrittenCore(), Bytes()
        outside = Outside(
            "",
            [row for _, row in self.rows],
            self.values,
            made.start,
            made.length,
            made.any_start,
            self.exchange,
        )
        outside = outside._replace(blocks=[-1] * len(made.ports), events=made.events)
        if made.inside is not None:
            tables = core.program(body, made.inside, made.start)
            for variable in made.variables:
                if variable.rate >= 0:
                    outside.blocks[variable.rate] = tables.blocks["rates"]
            cells = [port.cells for port in made.ports]
            slopes = [(y, u, at, cells[y] * cells[u]) for (y, u), at in made.slopes.items()]
            outside = outside._replace(slopes=slopes, slopes_block=tables.blocks["slopes"] if slopes else -1)
        else:
            assert made.equations is not None
            kernel = directional(made)
            numbers = {port.name: number for number, port in enumerate(made.equations.ports)}
            body.wholes(n for port in made.ports for n in (0, numbers[port.name], port.cells))
            body.append(core.ode(lower(made.equations, DormandPrince()), made.equations.numbers))
            outside = outside._replace(directional=-1 if kernel is None else core.kernel(kernel))
        self.token = self._token(body.done(), core.kernels.done())
        resource = scenario_bytes(core, body.done(), outside._replace(token=self.token))
        found = {"modelDescription.xml": self.description(), self.library_name: _core_library()}
        found["resources/scenario.upbeat"] = resource
        for folder, model in core.folders.models.items():
            found |= {f"resources/{folder}/{name}": data for name, data in _needed(model)}
        plugs = terminals(list(self._inner_terminals()), self.scalars) if self.fmi == 3 else None
        return found if plugs is None else {**found, TERMINALS: document(plugs)}

    def _inner_terminals(self) -> Iterator[tuple[str, Element]]:
        """What FMUs inside say of their terminals, by their paths."""
        inside = self.made.inside
        for unit, model in ({} if inside is None else inside.models).items():
            own = bare(model)
            if inside is None or not isinstance(own, FromFile):
                continue
            path = folder_of(key_of(own.path)) / TERMINALS
            if path.is_file():
                yield inside.paths.get(unit, unit), read(path)

    # ------------------------------------------------------------ the description

    def description(self) -> bytes:
        """The model description."""
        about = Header(self.identifier, self.token, self.kind == "source", self.discards, self._knows_slopes)
        described = Description2 if self.fmi == 2 else Description3
        return document(described(self.made, about, self.scalars).root())

    @property
    def _knows_slopes(self) -> bool:
        return bool(self.made.slopes) or (self.exchange and directional(self.made) is not None)

    def build_description(self) -> bytes:
        root = element(
            "fmiBuildDescription",
            element(
                "BuildConfiguration",
                element("SourceFileSet", element("SourceFile", name="fmu.c"), language="C99"),
                element("Library", name="m"),
                modelIdentifier=self.identifier,
            ),
            fmiVersion="3.0",
        )
        return document(root)


ROLES = {
    "time": 0, "input": 1, "output": 2, "local": 2, "parameter": 3, "tunable": 4, "constant": 5, "discard": 6,
    "state": 7, "rate": 8, "indicator": 9,
}  # fmt: skip
"""The numbers that scenario.h gives the roles of variables."""


def _cell(value: Value, kind: Kind) -> str:
    return f".r = {literal(float(value))}" if kind is Kind.REAL else f".i = {int(value)}"


def _core_library() -> bytes:
    """The native core as the library of an FMU."""
    try:
        from upbeat import _native
    except ImportError as error:
        raise InvalidInput(
            f"the kind 'core' needs Upbeat's native core, which is missing here ({error}): install Upbeat from a wheel "
            "(pip install --only-binary upbeat upbeat), or export with kind 'source' (--kind source)"
        ) from None
    path = Path(str(_native.__file__)).with_name(f"upbeat_fmu{Platform.here().suffix}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from None


def _needed(model: Fmu) -> Iterator[tuple[str, bytes]]:
    """The files of an FMU that a run on this machine needs, by name."""
    library = chosen_library(model.path, model.description.version, model.interface.model_identifier)
    folder = library.rpartition("/")[0]
    unpacked = folder_of(model.key)
    for path in sorted(unpacked.rglob("*")):
        name = path.relative_to(unpacked).as_posix()
        top = name.split("/")[0]
        if path.is_file() and (
            top not in ("binaries", "sources", "documentation") or name.startswith(f"{folder}/")
        ):
            yield name, path.read_bytes()


def _text(name: str) -> str:
    return (files("upbeat.generate") / "c" / name).read_text(encoding="utf-8")
