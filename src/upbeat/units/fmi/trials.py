"""What is tried with an FMU in a process of its own: a bench that drives a unit, and measurements on it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter_ns
from typing import Any

from upbeat.core.abilities import instantiated
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import CoSimulation, ModelDescription, Type, Variable
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.ports import has_events
from upbeat.units.fmi.trial import Notes
from upbeat.units.fmi.unit import initialized

# -- one unit of an FMU on the bench: fed, stepped and looked at by itself, always in the same way -------


Seen = dict[str, list[str]]
"""Outputs, cell by cell, as texts that are the same only if the values are, bit by bit."""
_MAX_ROUNDS = 1000


def model_of(path: str, settings: Mapping[str, Any], *, deep: bool = True) -> Fmu:
    """The FMU with nothing between it and the trial; with `deep` its local variables are outputs, too."""
    alone: dict[str, Any] = {**settings, "rollback": "trust", "isolation": "none"}
    model = Fmu(path, **alone)
    hidden = [v.name for v in model.description.variables if _can_be_seen(v)] if deep else []
    return Fmu(path, **alone, locals=hidden) if hidden else model


def settings_of(model: Fmu) -> dict[str, Any]:
    """What a trial in another process needs to know to make the same of the FMU, as JSON holds it."""
    spec = model.to_spec()
    return {"interface": model.interface_name} | {
        name: spec[name] for name in ("solver", "tolerance", "parameters") if name in spec
    }


def _can_be_seen(variable: Variable) -> bool:
    return variable.causality is Role.LOCAL and variable.type is not Type.CLOCK


def step_of(model: Fmu) -> float:
    """A step that suits the FMU: its own wish, or a small part of its experiment."""
    experiment, interface = model.description.experiment, model.interface
    if experiment.step is not None and experiment.step > 0:
        return experiment.step
    if isinstance(interface, CoSimulation) and interface.fixed_internal_step:
        return interface.fixed_internal_step
    if experiment.stop is not None and experiment.stop > (experiment.start or 0.0):
        return (experiment.stop - (experiment.start or 0.0)) / 500
    return 0.01


class Bench:
    """A unit that is driven here. Times are multiples of its step, never sums."""

    def __init__(self, model: Fmu, name: str = "trial", *, fed: bool = True) -> None:
        self.model = model
        self.fed = fed
        self.start = model.description.experiment.start or 0.0
        self.step = step_of(model)
        self.unit: Any = instantiated(model, name, self.start)
        self.unit.take_any_length()
        self.time = self.start
        self.count = 0
        self.inputs = [p for p in model.ports if p.causality is Causality.INPUT and not p.event]
        self.outputs = [
            p for p in model.ports if p.causality is Causality.OUTPUT and not p.event and not p.extra
        ]

    def feed(self, n: int) -> None:
        """Give every input the n-th of its values; texts stay what they are. Nothing if it is not `fed`."""
        for port in self.inputs if self.fed else ():
            if port.kind is not Kind.STRING:
                self.give(port, value_of(self.model.description, port, n))

    def give(self, port: Port, values: Sequence[Value]) -> None:
        """Set one input."""
        signal: Signal = values[0] if port.size is None else tuple(values)
        self.unit.set(port.name, [signal])

    def advance(self) -> None:
        """One step."""
        self.count += 1
        self.to(self.start + self.count * self.step)

    def to(self, end: float) -> None:
        """Simulate until `end`, with everything that happens on the way."""
        while self.time < end:
            due = self.settle()
            self.time = self.unit.advance(self.time, min(end, due), False)
        self.settle()

    def settle(self) -> float:
        """Let happen what is due; when something will happen next."""
        due = getattr(self.unit, "due", None)
        if due is None:
            return inf
        for _ in range(_MAX_ROUNDS):
            if (when := float(due())) > self.time:
                return when
            while self.unit.jump():
                pass
        raise RuntimeError(f"its events do not come to an end at t = {self.time:g}")

    def see(self) -> Seen:
        """All outputs now."""
        return {port.name: cells(self.unit.get(port.name)) for port in self.outputs}

    def run(self, steps: int = 2) -> list[Seen]:
        """The outputs now and after each of some steps with other inputs each time."""
        seen = [self.see()]
        for n in range(steps):
            self.feed(n + 1)
            self.advance()
            seen.append(self.see())
        return seen

    def close(self) -> None:
        """The end of the unit."""
        close = getattr(self.unit, "close", None)
        if close is not None:
            close()


def cells(signal: Signal | None) -> list[str]:
    """One text per cell: numbers with all their bits."""
    values = signal if isinstance(signal, (tuple, list)) else (signal,)
    return [value.hex() if isinstance(value, float) else repr(value) for value in values]


def value_of(description: ModelDescription, port: Port, n: int) -> tuple[Value, ...]:
    """The n-th value of an input: not far from its start, and within its bounds."""
    variable = description.by_name.get(port.name)
    low, high = _bounds(variable)
    return tuple(_other(port, start, low, high, n) for start in port.initial)


def _bounds(variable: Variable | None) -> tuple[float, float]:
    properties = None if variable is None else variable.properties
    low = -inf if properties is None or properties.min is None else float(properties.min)
    high = inf if properties is None or properties.max is None else float(properties.max)
    return low, high


def _other(port: Port, start: Value, low: float, high: float, n: int) -> Value:
    if port.kind is Kind.REAL:
        size = max(abs(float(start)), 1.0) / 8
        if isfinite(high - low):
            size = min(size, (high - low) / 8)
        wanted = float(start) + size * (1 + n % 3)
        return wanted if wanted <= high else max(low, float(start) - size * (1 + n % 3))
    if port.kind is Kind.BOOLEAN:
        return n % 2 == 1
    if port.kind is Kind.INTEGER:
        codes = codes_of(port)
        if codes:
            return codes[n % len(codes)]
        wanted = int(start) + n % 3
        return wanted if wanted <= high else int(start)
    return "61" if n % 2 else "6162"  # a text for strings, and bytes for binaries


def codes_of(port: Port) -> Sequence[int]:
    """What an enumeration may be."""
    codes: Sequence[int] = getattr(port, "codes", ()) or range(len(port.items))
    return codes


def apart(
    wanted: Sequence[Mapping[str, Sequence[str]]], got: Sequence[Mapping[str, Sequence[str]]]
) -> tuple[float, float, str]:
    """How far two series of outputs are apart: at most, in units of the value, and where (empty: nowhere).

    What is no number, or not the same kind of number, is infinitely far apart.
    """
    worst, relative, where = 0.0, 0.0, ""
    for one, other in zip(wanted, got, strict=True):
        for name, values in one.items():
            for want, have in zip(values, other[name], strict=True):
                if want == have:
                    continue
                a, b = _number(want), _number(have)
                gap = abs(a - b) if isfinite(a) and isfinite(b) else inf
                ratio = gap / max(1.0, abs(a)) if gap < inf else inf
                if not where or ratio > relative:
                    worst, relative = gap, ratio
                    where = f"'{name}' is {_shown(have, want)} instead of {_shown(want, have)}"
    return worst, relative, where


def _number(text: str) -> float:
    try:
        return float.fromhex(text) if "x" in text or "n" in text else float(int(text))
    except ValueError:
        return inf


def _shown(text: str, other: str) -> str:
    """Short, unless only all digits tell it from the other one."""
    if "0x" not in text or "0x" not in other:
        return f"{float.fromhex(text):.9g}" if "0x" in text else text
    mine, its = float.fromhex(text), float.fromhex(other)
    return f"{mine:.9g}" if f"{mine:.9g}" != f"{its:.9g}" else f"{mine:.17g}"


# -- the measurements: each one a function that runs in a process of its own and notes what it finds -----


STEPS = 20
"""Of a series that is compared with another one."""
_MAX_STEPS = 1000
_MAX_INPUTS = 50
_SECONDS = 6.0
"""For what is repeated: well below the deadline of a trial."""


def run(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """As its maker would: from start to stop, with the inputs as they are."""
    model = model_of(path, settings, deep=False)
    notes.stage("being instantiated and initialised")
    bench = Bench(model)
    bench.see()
    notes.found("step", bench.step)
    stop = model.description.experiment.stop
    steps = 100 if stop is None else max(1, min(_MAX_STEPS, round((stop - bench.start) / bench.step)))
    times, began = [], monotonic()
    for n in range(steps):
        notes.stage(f"stepping from t = {bench.time:.9g}")
        before = perf_counter_ns()
        bench.advance()
        times.append(perf_counter_ns() - before)
        bench.see()
        if n == 0:
            notes.found("started", True)
        if monotonic() - began > _SECONDS:
            break
    notes.found("reached", bench.time)
    notes.found("steps", len(times))
    notes.found("ns", median(times))
    notes.stage("being freed")
    bench.close()


def repeat(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """One instance after the other in a process: each should do the same."""
    model = model_of(path, settings, deep=False)
    notes.stage("running a first time")
    first = _series(model)
    notes.found("first", first)
    notes.stage("running a second time in the same process")
    notes.found("again", apart(first, _series(model)))


def together(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """Two instances at a time, stepped in turn: each should do what it does alone."""
    model = model_of(path, settings, deep=False)
    notes.stage("running alone")
    alone = _series(model)
    notes.stage("being instantiated twice at a time")
    both = [Bench(model, name) for name in ("one", "two")]
    seen = [[bench.see()] for bench in both]
    for n in range(STEPS):
        for bench, series in zip(both, seen, strict=True):
            notes.stage("stepping two instances in turn")
            bench.feed(n + 1)
            bench.advance()
            series.append(bench.see())
    notes.found("together", max(apart(alone, series) for series in seen))
    for bench in both:
        bench.close()


def threads(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """Two instances in two threads at the same time: each should do what it does alone."""
    model = model_of(path, settings, deep=False)
    notes.stage("running alone")
    alone = _series(model)
    notes.stage("being instantiated twice at a time")
    both = [Bench(model, name) for name in ("one", "two")]
    results: list[Any] = [None, None]
    ready = threading.Barrier(len(both))

    def work(place: int) -> None:
        ready.wait()
        try:
            results[place] = both[place].run(STEPS)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            results[place] = error

    notes.stage("stepping in two threads")
    workers = [threading.Thread(target=work, args=(place,)) for place in range(len(both))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    notes.found("threads", max(apart(alone, series) for series in results))
    for bench in both:
        bench.close()


def uneven(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """Steps of different lengths to the same end."""
    model = model_of(path, settings, deep=False)
    notes.stage("taking even steps")
    even = Bench(model)
    for _ in range(6):
        even.advance()
    wanted = even.see()
    even.close()
    notes.stage("taking steps of different lengths")
    other = Bench(model)
    for at in (0.5, 2.0, 2.25, 4.0, 6.0):
        other.to(other.start + at * other.step)
    notes.found("uneven", apart([wanted], [other.see()]))
    other.close()


def small(notes: Notes, path: str, settings: dict[str, Any], part: float) -> None:
    """One step that is `part` of the usual one: 0, or very little. FMUs for co-simulation only."""
    model = model_of(path, settings, deep=False)
    start = model.description.experiment.start or 0.0
    step = step_of(model)
    instance, _ = initialized(model, "trial", start)
    instance.exit_initialization()
    if has_events(model.description, model.interface):
        instance.update()
        instance.enter_step_mode()
    notes.stage("taking an ordinary step")
    reached = instance.step(start, step, False).reached
    notes.stage(f"taking a step of length {part * step:g}")
    ended = instance.step(reached, part * step, False)
    notes.found("reached", ended.reached - reached)
    notes.stage("taking an ordinary step afterwards")
    instance.step(ended.reached, step, False)
    notes.found("done", True)
    instance.free()


def respond(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """Which outputs react to a change of each input: at once, and after one more step."""
    model = model_of(path, settings, deep=False)
    notes.stage("running without a change")
    bench = _warm(model)
    bench.advance()
    after = bench.see()
    bench.close()
    for port in bench.inputs[:_MAX_INPUTS]:
        changed = value_of(model.description, port, 1)
        if changed == port.initial:
            continue
        notes.stage(f"changing its input '{port.name}'")
        bench = _warm(model)
        before = bench.see()
        bench.give(port, changed)
        bench.settle()
        at_once = _reacting(before, bench.see())
        bench.advance()
        notes.found(f"input {port.name}", [at_once, _reacting(after, bench.see())])
        bench.close()


def memory(notes: Notes, path: str, settings: dict[str, Any]) -> None:
    """How much more memory is in use after many lives of an instance, per life, in bytes."""
    model = model_of(path, settings, deep=False)
    lives, before, began = 0, 0, monotonic()
    while lives < 120 and (monotonic() - began < _SECONDS or lives < 8):
        if lives in (4, 40):  # what is only done once has been done by then
            before, first = resident(), lives
        notes.stage(f"living its life number {lives + 1}")
        bench = Bench(model)
        bench.advance()
        bench.close()
        lives += 1
    if before:
        notes.found("lives", lives - first)
        notes.found("growth", (resident() - before) / (lives - first))


def resident() -> int:
    """The memory of this process in bytes; 0 where that is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def steps_by_itself(model: Fmu) -> bool:
    """Whether the FMU chooses what a step means."""
    return isinstance(model.interface, CoSimulation)


def _series(model: Fmu) -> list[Seen]:
    bench = Bench(model)
    seen = bench.run(STEPS)
    bench.close()
    return seen


def _warm(model: Fmu) -> Bench:
    bench = Bench(model)
    bench.advance()
    bench.advance()
    return bench


def _reacting(before: Seen, now: Seen) -> list[str]:
    return [name for name, values in before.items() if now[name] != values]
