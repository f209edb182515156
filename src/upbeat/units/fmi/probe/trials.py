"""The measurements: each one a function that runs in a process of its own and notes what it finds."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter_ns
from typing import Any

from upbeat.units.fmi.bench import Bench, Seen, apart, model_of, step_of, value_of
from upbeat.units.fmi.description import CoSimulation
from upbeat.units.fmi.interfaces import has_events
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.trial import Notes
from upbeat.units.fmi.unit import initialized

STEPS = 20
"""Of a series that is compared with another one."""
_MOST_STEPS = 1000
_MOST_INPUTS = 50
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
    steps = 100 if stop is None else max(1, min(_MOST_STEPS, round((stop - bench.start) / bench.step)))
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
    for port in bench.inputs[:_MOST_INPUTS]:
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
    """The memory of this process in bytes; 0 where nobody tells."""
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
