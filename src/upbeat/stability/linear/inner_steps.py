"""The steps that nested scenarios make inside a communication step: which of them a matrix can stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, inf

from upbeat.core.errors import InvalidInput
from upbeat.core.expr import Cell, Kernel
from upbeat.master.paces.pace import Divides, Pace, equal_steps
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.forms import NoMatrix, opened

WHOLE = 1e-9
"""How far, relatively, a ratio of two steps may be from a whole number."""
SLIVER = 1e-6
"""A step of less than this part of the shortest one is what rounding has left."""
TRIED = 1000
"""How many steps are tried until one fits several nested scenarios."""


def check_inside(
    scenario: Scenario, steps: Sequence[float], *, alike: bool, start: float = 0.0, around: str = ""
) -> None:
    """That nested scenarios, at all depths, make steps of sizes that are known before.

    `steps` are those around them, from `start` on. `alike`: each has to do the same whenever it comes, so
    that one matrix stands for it.
    """
    for unit, model in scenario.units.items():
        if opened(model):
            name = around + path_of(scenario, unit)
            inside = model.running
            own = sizes_inside(name, inside.pace, steps, alike=alike)
            if alike and isinstance(inside.pace, Divides) and not around:
                _check_slivers(name, inside.pace, steps, own, start)
            check_inside(inside.scenario, own, alike=alike, start=start, around=f"{name}.")


def _check_slivers(
    name: str, pace: Divides, steps: Sequence[float], own: Sequence[float], start: float
) -> None:
    """That the pace makes the steps it seems to make: sums of them may miss the end by a rounding error.

    What is left then is a step of its own, now and then, and what that does no matrix of the others says.
    """

    ends = Kernel.over_cells((pace.end(Cell(0), Cell(1)),)).python()
    for step in steps:
        for k in range(TRIED):
            t, limit = start + k * step, start + (k + 1) * step
            while t < limit:
                end = ends([t, limit])[0]
                if end - t < SLIVER * min(own):
                    raise NoMatrix(
                        f"nothing single can be said about '{name}': its steps of {pace.longest:g} s do not "
                        f"quite add up to {step:g} s, so that rounding leaves one of {end - t:.1g} s now and "
                        f"then (at t = {t:.6g} s), and inputs that look back are wrong after that. Give it "
                        f"Fixed({pace.longest:g}) instead, or steps that are a hair longer: "
                        f"{type(pace).__name__}({pace.longest * (1.0 + 1e-6):.9g})"
                    )
                t = end


def sizes_inside(name: str, pace: Pace, steps: Sequence[float], *, alike: bool = False) -> tuple[float, ...]:
    """The sizes of the steps that a pace makes inside those of the sizes `steps`."""
    if isinstance(pace, Divides):  # begins again with each of them
        return tuple(dict.fromkeys(size for step in steps for size in _cut(step, pace.longest)))
    own = equal_steps(pace)
    if own is None:
        raise InvalidInput(
            f"'{name}' cannot be linearised: inside it {type(pace).__name__} chooses the steps as it goes, "
            "by what the units do, and what such a step does is no matrix. Give the scenario inside steps of "
            f"one size: up.Master(up.Fixed({min(steps):g}), …) in its Nested, or step = {min(steps):g} under "
            "[master] in its file."
        )
    if all(_whole(step / own) for step in steps):
        return (own,)
    if len(steps) == 1 and _whole(own / steps[0]):
        return (steps[0],)
    if alike:
        odd = next(step for step in steps if not _whole(step / own))
        raise InvalidInput(
            f"'{name}' cannot be linearised with communication steps of {odd:g} s: its own step of {own:g} s "
            "is no whole part of them, so that it makes other steps inside from one to the next, and no "
            f"single matrix says what they do. Take communication steps of {_near(odd, own):g} s (step=…, "
            f"--step), or give it steps of {odd:g} s inside (up.Fixed({odd:g}) in its Nested, step = {odd:g} "
            "in its file)."
        )
    return tuple(dict.fromkeys((own, *steps)))


def fixed_inside(scenario: Scenario) -> tuple[float, ...]:
    """The sizes of the fixed steps of nested scenarios, at all depths."""
    found: set[float] = set()
    for model in scenario.units.values():
        if opened(model):
            step = equal_steps(model.master.pace)
            found |= set() if step is None else {step}
            found |= set(fixed_inside(model.scenario))
    return different(found)


def fitting(step: float, inside: Sequence[float]) -> float:
    """The step nearest to that one which fits steps `inside`; itself if there is none far and wide."""
    if not inside:
        return step
    base = inside[0]
    whole = round(step / base) if step >= base else round(base / step)
    for away in range(TRIED):
        for count in (whole + away, whole - away):
            near = count * base if step >= base else base / max(count, 1)
            if count >= 1 and all(_whole(near / own) or _whole(own / near) for own in inside):
                return near
    return step


def different(sizes: Iterable[float]) -> tuple[float, ...]:
    """Sizes without those that differ by rounding alone."""
    found: list[float] = []
    for size in sorted(set(sizes)):
        if not found or size - found[-1] > WHOLE * size:
            found.append(size)
    return tuple(found)


def _whole(ratio: float) -> bool:
    return 0.5 < ratio < inf and abs(ratio - round(ratio)) <= WHOLE * ratio


def _near(step: float, own: float) -> float:
    """A whole multiple of the steps inside, close to what was asked for."""
    return max(round(step / own), 1) * own


def _cut(step: float, longest: float) -> tuple[float, ...]:
    """The sizes into which a step is cut if none may be longer than that."""
    if longest >= step:
        return (step,)
    rest = step - floor(step / longest) * longest
    if min(rest, longest - rest) <= WHOLE * step:
        return (longest,)
    return (longest, rest)
