"""Files with what they import: which unit inside is an adaptation itself, and what the ports of each are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from upbeat.adapt.sa.declarative import layers
from upbeat.adapt.sa.explicit import Explicit, explicit
from upbeat.adapt.sa.parsing import bad, parse, read
from upbeat.adapt.sa.ports import unit_text
from upbeat.adapt.sa.tree import Adapted, File, Inner, Literal, Port, Ref, Wire
from upbeat.core.errors import InvalidInput, Problem, ScenarioError, suggest
from upbeat.core.measure import MeasureError, conversion

MAX_FILES = 100


class Ports(NamedTuple):
    """The ports of a unit inside, as a text would declare them; cells of arrays are ports whose alias is the
    cell. Of the `others`, why there are none here."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    others: Mapping[str, str] = {}


Look = Callable[[Inner, tuple[str, ...]], Ports | None]
"""The ports of a unit inside, and inside of which others it is; None if they are not known."""


@dataclass(frozen=True, slots=True)
class Layer:
    """An adaptation in explicit form, and the units inside it that are adaptations themselves."""

    explicit: Explicit
    inside: dict[str, Layer]

    @property
    def name(self) -> str:
        return self.explicit.it.name

    def all(self) -> Iterator[Layer]:
        """This one and all inside, the innermost first."""
        for inner in self.inside.values():
            yield from inner.all()
        yield self


@dataclass
class Library:
    """A file and what it imports. Nothing is found outside of the folder of a file."""

    look: Look = lambda *_: None
    parameters: Mapping[str, float | bool] = field(default_factory=dict)
    """Other values of parameters; of those inside with the way to them: ``loop_sa.MAXITER``."""
    files: dict[Path, File] = field(default_factory=dict)
    texts: list[File] = field(default_factory=list)

    def load(self, path: Path | str) -> File:
        """The file at `path`; what it imports is read, too."""
        return self._load(Path(path), ())

    def add(self, text: str, source: str = "") -> File:
        """A text that is in no file. It cannot import anything."""
        file = parse(text, source)
        if file.imports:
            what = f"'{file.imports[0].name}' cannot be imported into a text"
            raise ScenarioError([bad(file.imports[0].at, what, "Put both into files.")], source)
        self.texts.append(file)
        return file

    def _load(self, path: Path, stack: tuple[Path, ...]) -> File:
        place = path.resolve()
        if place in self.files:
            return self.files[place]
        file = read(path)
        inner = [unit for it in file.adaptations for unit in it.inner if unit.path.endswith(".sa")]
        wanted = [(name, self._module(name.name, place.parent)) for name in file.imports]
        wanted += [(Ref(unit.path, at=unit.at), _file(place.parent / unit.path)) for unit in inner]
        for name, found in wanted:
            problem: Problem | None = None
            if found is None and name.name.endswith(".sa"):
                problem = bad(
                    name.at, f"there is no file '{name.name}' beside '{path.name}'", "Correct the path."
                )
            elif found is None:
                near = suggest(name.name, [one.stem for one in _beside(place.parent)], "files beside it")
                problem = bad(name.at, f"there is no module '{name.name}' beside '{path.name}'", near)
            elif found in (*stack, place):
                circle = [one.name for one in (*stack, place)][[*stack, place].index(found) :]
                way = " → ".join([*circle, found.name])
                problem = bad(name.at, f"the imports form a circle: {way}", "Leave out one of them.")
            elif len(self.files) >= MAX_FILES:
                problem = bad(name.at, f"more than {MAX_FILES} files are imported")
            if problem is not None:
                raise ScenarioError([problem], str(path))
            assert found is not None
            self._load(found, (*stack, place))
        self.files[place] = file
        return file

    def _module(self, name: str, folder: Path) -> Path | None:
        """The file that is the module: by its own words, or else by its name."""
        says = re.compile(rf"^\s*module\s+{re.escape(name)}\b", re.M)
        for path in _beside(folder):
            try:
                if path.stat().st_size < 1_000_000 and says.search(path.read_text("utf-8", "replace")):
                    return path.resolve()
            except OSError:
                continue
        path = folder / f"{name}.sa"
        return path.resolve() if path.is_file() else None

    def _every(self) -> Iterator[File]:
        yield from self.files.values()
        yield from self.texts

    # ------------------------------------------------------------------ units

    def adaptation(self, inner: Inner) -> Adapted | None:
        """The adaptation that a unit inside is: of its name, of its type, or one made of several units."""
        known = [one for file in self._every() for one in file.adaptations]
        found = [one for one in known if (one.name, one.type) == (inner.name, inner.type)]
        found += [one for one in known if one.type == inner.type]
        found += [one for one in known if one.name == inner.type]
        if found:
            return found[0]
        whole = self._declared(inner)
        if whole is None or not whole.parts:
            return None
        parts = tuple(Inner(name, name, at=whole.at) for name in whole.parts)
        ins, outs = whole.inputs or None, whole.outputs or None
        return Adapted(whole.type, whole.name, whole.path, inner=parts, inputs=ins, outputs=outs, at=whole.at)

    def _declared(self, inner: Inner) -> Inner | None:
        known = [one for file in self._every() for one in file.fmus]
        found = [one for one in known if one.name == inner.name]
        found += [one for one in known if one.type == inner.type]
        return found[0] if found else None

    def layer(self, it: Adapted, stack: tuple[str, ...] = (), path: tuple[str, ...] = ()) -> Layer:
        """`it` and all inside in explicit form. Problems in other files say in which."""
        try:
            return self._layer(self._with_parameters(it, path), stack, path)
        except ScenarioError as error:
            raise ScenarioError(
                [elsewhere(it, one) for one in error.problems] if stack else error.problems
            ) from None

    def _with_parameters(self, it: Adapted, path: tuple[str, ...]) -> Adapted:
        own = {name.rpartition(".")[2]: value for name, value in self.parameters.items()
               if name.rpartition(".")[0] == ".".join(path)}  # fmt: skip
        known = [one.name for one in it.params]
        for name, value in own.items():
            if name not in known:
                near = suggest(name, known, "parameters")
                raise ScenarioError([bad(it.at, f"there is no parameter '{name}' in '{it.name}'", near)])
            if not isinstance(value, (bool, int, float)):
                what = f"the parameter '{name}' is a number or true or false, not {value!r}"
                raise ScenarioError([bad(it.at, what)])
        other = {name: Literal(v if isinstance(v, bool) else float(v)) for name, v in own.items()}
        params = tuple(replace(one, value=other.get(one.name, one.value)) for one in it.params)
        return replace(it, params=params) if own else it

    def _layer(self, it: Adapted, stack: tuple[str, ...], path: tuple[str, ...]) -> Layer:
        if it.type in stack:
            way = " → ".join([*stack[stack.index(it.type) :], it.type])
            what = f"'{it.type}' would contain itself: {way}"
            raise ScenarioError([bad(it.at, what, "Give the unit inside another type, or leave it out.")])
        inside: dict[str, Layer] = {}
        units: list[Inner] = []
        problems: list[Problem] = []
        for inner in it.inner:
            known = inner
            looked = self.look(inner, path)
            adapted = self.adaptation(inner) if looked is None else None
            if inner.type == it.type and inner.path:
                adapted = None
            if adapted is not None:
                inside[inner.name] = made = self.layer(adapted, (*stack, it.type), (*path, inner.name))
                known = _with_ports(inner, made.explicit.inputs, made.explicit.outputs)
                if known.reactive is None and known.mealy is None:
                    known = replace(known, reactive=adapted.reactive, mealy=adapted.mealy)
            elif (declared := self._declared(inner)) is not None:
                known = _with_ports(inner, declared.inputs, declared.outputs)
                known = replace(known, path=inner.path or declared.path)
            if looked is not None:
                problems += _wrong(known, looked)
                known = _with_ports(known, looked.inputs, looked.outputs)
            elif not known.inputs and not known.outputs:
                names = [one.name for file in self._every() for one in file.fmus]
                names += [one.name for file in self._every() for one in file.adaptations]
                near = suggest(inner.name, names, "units") if names else ""
                what = f"the ports of '{inner.name}' are not known"
                hint = "Write 'with input ports …' and 'with output ports …' behind it."
                problems.append(bad(inner.at, what, f"{hint} {near}".strip()))
            units.append(known)
        if problems:
            raise ScenarioError(problems)
        whole = replace(it, inner=tuple(units))
        whole = replace(whole, wires=(*it.wires, *self._wires(whole)))
        if whole.inputs is None:
            whole = replace(whole, inputs=tuple(self._named(whole)) or None)
        *under, last = layers(whole)
        for one in under:
            inside = {one.name: Layer(explicit(one), inside)}
        return Layer(explicit(last), inside)

    def _wires(self, it: Adapted) -> Iterator[Wire]:
        """Connections of the file between the units inside; and, if it has any, those of equal names."""
        wired = {wire.target.text for wire in it.wires}
        for file in self._every():
            for wire in file.wires:
                source, target = _owned(it, wire.source, "outputs"), _owned(it, wire.target, "inputs")
                if source and target and target.text not in wired and source.owner != target.owner:
                    wired.add(target.text)
                    yield Wire(source, target, at=wire.at)
        if it.wires or not self._listed(it):
            return
        for unit in it.inner:
            for port in unit.inputs:
                makers = [one for one in it.inner if one is not unit and _has(one.outputs, port.name)]
                target = Ref(port.name, unit.name, at=it.at)
                if target.text not in wired and len(makers) == 1:
                    yield Wire(Ref(port.name, makers[0].name, at=it.at), target, at=it.at)

    def _named(self, it: Adapted) -> Iterator[Port]:
        """Inputs that connections of the file lead to from outside: they have the names of their sources."""
        taken = {wire.target.text for wire in it.wires}
        for file in self._every():
            for wire in file.wires:
                name, owner = wire.source.name, wire.source.owner
                target = _owned(it, wire.target, "inputs")
                if target is None or {name, target.text} & taken or _owned(it, wire.source, "outputs"):
                    continue
                taken |= {name, target.text}
                makers = [one for one in file.fmus if owner in ("", one.name, one.type)]
                made = [port for one in makers for port in one.outputs if port.name == name]
                said = made[0] if len(made) == 1 else Port(name)
                yield Port(name, said.unit, said.type, bound=target, at=it.at)

    def _listed(self, it: Adapted) -> bool:
        """Whether its units are declared elsewhere: there, ports of the same name belong together."""
        return all(self._declared(unit) or self.adaptation(unit) for unit in it.inner)


def elsewhere(it: Adapted, problem: Problem) -> Problem:
    """The problem with the name of the file that its line is of."""
    return replace(problem, where=(Path(it.source).name,)) if it.source and not problem.where else problem


def _file(path: Path) -> Path | None:
    try:
        return path.resolve() if path.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def _wrong(inner: Inner, known: Ports) -> Iterator[Problem]:
    """Where the text and the model itself say different things."""
    for given, found, kind in (
        (inner.inputs, known.inputs, "input"),
        (inner.outputs, known.outputs, "output"),
    ):
        by_name = _by_name(found)
        for port in given:
            called = port.alias or port.name
            model = by_name.get(called)
            if model is None and called in known.others:
                yield bad(port.at, f"'{inner.name}.{called}' is {known.others[called]}")
            elif model is None:
                hint = suggest(called, [one.name for one in found], f"{kind}s")
                yield bad(port.at, f"'{inner.name}' has no {kind} '{called}'", hint)
            elif port.type and model.type and port.type != model.type:
                what = f"'{inner.name}.{called}' is {model.type}, not {port.type}"
                yield bad(port.at, what, f"Write {model.type} {port.name}.")
            elif port.unit and model.unit and not _same(port.unit, model.unit):
                what = f"'{inner.name}.{called}' is in {model.unit}, not in {port.unit}"
                yield bad(port.at, what, f"Write {port.name} ({model.unit}).")


def _by_name(ports: tuple[Port, ...]) -> dict[str, Port]:
    """Ports by name, and cells of arrays by both of theirs, ``v_0`` and ``v[0]``."""
    return {port.alias: port for port in ports if port.alias} | {port.name: port for port in ports}


def _same(one: str, other: str) -> bool:
    try:
        return not conversion(unit_text(one), unit_text(other))
    except MeasureError:
        return False


def _has(ports: tuple[Port, ...], name: str) -> bool:
    return any(port.name == name for port in ports)


def _owned(it: Adapted, ref: Ref, kind: str) -> Ref | None:
    units = [unit for unit in it.inner if ref.name in {port.name for port in getattr(unit, kind)}]
    if ref.owner:
        units = [unit for unit in units if ref.owner in (unit.name, unit.type)]
    return replace(ref, owner=units[0].name) if len(units) == 1 else None


def _with_ports(inner: Inner, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Inner:
    """Ports that the text leaves out; of those that it names, what it does not say."""

    def filled(given: tuple[Port, ...], known: tuple[Port, ...]) -> tuple[Port, ...]:
        if not given:
            return tuple(replace(port, bound=None, at=inner.at) for port in known)
        by_name = _by_name(known)
        return tuple(_filled(port, by_name.get(port.alias or port.name)) for port in given)

    return replace(inner, inputs=filled(inner.inputs, inputs), outputs=filled(inner.outputs, outputs))


def _filled(port: Port, known: Port | None) -> Port:
    if known is None:
        return port
    unit, kind = port.unit or known.unit, port.type or known.type
    alias, initial = port.alias or known.alias, port.initial or known.initial
    return replace(port, unit=unit, type=kind, initial=initial, alias=alias)


def _beside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.sa"))[: 2 * MAX_FILES]
    except OSError:
        return []


def checked(path: Path | str, look: Look | None = None) -> tuple[Layer, ...]:
    """All adaptations of a file in explicit form, with what is inside them; `ScenarioError` with its name."""
    library = Library(look or (lambda *_: None))
    file = library.load(path)
    return all_of(library, file, str(path))


def all_of(library: Library, file: File, source: str) -> tuple[Layer, ...]:
    """The adaptations of a file of the library."""
    problems: list[Problem] = []
    found = []
    for it in file.adaptations:
        try:
            found.append(library.layer(it))
        except ScenarioError as error:
            problems += error.problems
        except InvalidInput as error:
            problems.append(bad(it.at, str(error)))
    if not file.adaptations and not file.fmus:
        problems.append(
            Problem(
                (),
                "there is no adaptation in it",
                "Begin with 'semantic adaptation reactive moore TYPE name'.",
            )
        )
    if problems:
        raise ScenarioError(problems, source)
    return tuple(found)
