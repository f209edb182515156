"""The induced model: the matrix that one communication step applies to the extended state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, RunError, suggest
from upbeat.core.time import Span
from upbeat.engine.experiment import Experiment
from upbeat.engine.isolation import Isolation, together
from upbeat.engine.nesting.model import Nested
from upbeat.master.paces.pace import EventDriven, Fixed
from upbeat.master.program import Program
from upbeat.stability.linear.beside import Array, NoMatrix
from upbeat.stability.linear.exponential import balanced
from upbeat.stability.linear.followed import USUAL, Followed, Induced
from upbeat.stability.linear.inner_steps import check_inside, different, fitting, fixed_inside
from upbeat.stability.linear.kinks import LOOSE, Kinks, Nearby

At = float | Literal["start", "rest"]
"""A point of linearisation: the start, a point at rest, or a time of the run."""
LOOKED = 4
"""At so many points of a run, and at its start, it is looked whether slopes jump there."""
WHOLE = 1_000
"""How many steps the run has that is thought of where only one is looked at."""
RESTS = 1e-9
"""A point that a step changes by less, relatively, is one of rest."""
CHANGED = 1e-5
"""Slopes that differ by less, and by far less than decides, relatively to all in balanced units, are the
same …"""
DOUBLED, FURTHEST, ARRIVED = 20, 1e3, 1e-2
"""… where they are looked at again: after so many times twice as many steps, not further away than this,
relatively, if they grow, and until twice as many change so little."""
BESIDE, ROUNDED, UNSURE = 4.0, 1e-15, 1e-3
"""A point of rest may be so many times further away than Newton's method says last, where slopes vanish there
as those of x² do; and by as much as rounding of a step's end hides, if that is no more than this."""
FOLLOWED = 200_000
"""The most steps of a run that are followed to a point of linearisation."""


class Inducing:
    """Finds the matrices of one experiment for any number of steps. A context manager: it holds units.

    `ideal`: every unit as if it were solved without error, so that only the coupling is judged. `blocks`: the
    step blocks of the program that steps are made by; those that do not say are made by the first. `sizes`:
    those of the steps, where several follow each other.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        ideal: bool = False,
        blocks: Sequence[str] = (USUAL,),
        sizes: Iterable[float] = (),
    ) -> None:
        self._experiment = experiment
        self.ideal = ideal
        self._blocks = tuple(blocks)
        self._sizes = different(sizes)
        self._nested = any(type(model) is Nested for model in experiment.closed.units.values())
        self.inside = fixed_inside(together(experiment.closed)) if self._nested else ()
        """The sizes of steps inside nested scenarios: others have to fit them."""
        self._machine: Followed | None = None
        self._steps = 1
        self._point: tuple[Any, Array] | None = None  # where the last matrix was asked for
        self._at_rest: Array | None = None  # the states of units: the search for other steps begins there

    def __enter__(self) -> Inducing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the units."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def fitting(self, step: float) -> float:
        """The step nearest to that one which nested scenarios can make alike each time."""
        return fitting(step, self.inside)

    def machine(self, step: float, *, alike: bool = True) -> Followed:
        """What runs the program for steps of this size, or of several.

        `alike`: whether a step has to do the same whenever it comes.
        """
        again = self._machine is not None and self._machine.reusable
        if not again or self._nested:  # nested scenarios have steps of their own, which others depend on
            self.close()
            several = len(self._sizes) > 1
            pace = EventDriven(max(self._sizes)) if several else Fixed(step)  # decides what can be flattened
            master = replace(self._experiment.master, pace=pace)
            alone = self._experiment.with_(
                scenario=together(self._experiment.scenario), isolation=Isolation(), master=master
            )
            if self._nested:  # rates are merged only into steps that are all alike, as those judged here are
                alone = alone.with_(span=Span(self._start, self._start + WHOLE * step))
            plan = alone.plan
            check_inside(plan.scenario, self._sizes if several else (step,), alike=alike, start=self._start)
            program = plan.program
            check_blocks(self._blocks, program)
            self._machine = Followed(
                plan.scenario,
                program,
                self._start,
                step,
                ideal=self.ideal,
                blocks=self._blocks,
                stop=self._experiment.span.stop,
            )
        assert self._machine is not None
        return self._machine

    @property
    def _start(self) -> float:
        return self._experiment.span.start

    def model(self, step: float, at: At = "start") -> Induced:
        """The matrix of a step of this size, as soon as all histories are complete, at a point.

        At a time of the run this is followed to there. What is linear has the same matrix everywhere.
        """
        time = self._checked(at)
        if at == "rest":
            return self.rest(step)
        machine = self.machine(step)
        machine.begin()
        with machine.rows_alone():
            for _ in range(max(machine.depth, self._steps_to(time, step, machine))):
                machine.go(step)
                machine.renew()
            self._stand(machine, step)
            before = machine.values()
            found = machine.over(step, self._steps)
            return replace(
                found,
                begun=at == "start",
                unseen=found.unseen or self._moving(before, step, found, named(at)),
            )

    def _moving(self, before: Array, step: float, found: Induced, where: str) -> str:
        """Why a matrix decides nothing, if the run leaves its point, which was `before`, and slopes change.

        They are looked at again a step later, and along the way that they themselves predict, after 1, 2, 4,
        … steps: slow things change slopes slowly, and up to a kink they do not change at all. What has the
        same slopes there, and goes on to where they say, counts as linear, as far as this goes.
        """
        assert self._machine is not None
        machine, whole, moves = self._machine, self._machine.whole, self._machine.moves
        change = machine.values() - before
        own = np.array(machine.extended.own, dtype=bool)
        if not machine.curved or not found.size or not np.isfinite(whole).all():
            return ""
        if not (np.abs(change) > RESTS * np.abs(before))[own].any():
            return ""
        try:
            changes = not self._same_along(_ways(whole, change, own, before), before, step, found)
        except (RunError, InvalidInput, ArithmeticError, np.linalg.LinAlgError):
            changes = True  # where the run leads there is not even a matrix
        finally:
            machine.whole, machine.moves = whole, moves
        if not changes:
            return ""
        place = int(np.argmax(np.where(own, np.abs(change) / (1.0 + np.abs(before)), 0.0)))
        return (
            f"{where} is not a point of rest (a step moves {self.entries[place]} by {change[place]:.3g}), "
            "and slopes change along the run: those of one point say nothing about what follows; "
            'at="rest" (--at rest) judges the point where it settles, up.stability_along (--along) the run'
        )

    def _same_along(self, ways: Iterable[Array], before: Array, step: float, found: Induced) -> bool:
        """Whether steps do the same a step later, and wherever these ways lead from the point."""
        assert self._machine is not None
        machine, whole, known = self._machine, self._machine.whole, 100.0 * found.accuracy
        own = np.array(machine.extended.own, dtype=bool)
        margin = abs(1.0 - float(np.abs(np.linalg.eigvals(found.matrix)).max()))
        limit = max(known, min(CHANGED, 0.1 * margin))
        _, units = balanced(whole)

        def carried(matrix: Array) -> Iterator[Array]:
            """What the states of units come to over 1, 2, … such steps, whatever goes through registers.

            Those hold times as well, and slopes by these change as time goes on.
            """
            scaled: Array = matrix * units[None, :] / units[:, None]
            power = scaled[:, own]
            for _ in range(machine.depth + 2):
                yield power[own]
                power = scaled @ power

        def same() -> bool:
            return all(
                float(np.abs(one - other).max()) <= limit * (float(np.abs(one).max()) or 1.0)
                for one, other in zip(carried(whole), carried(machine.whole), strict=True)
            )

        def ahead(way: Array, *, rows: bool = True) -> tuple[Array, Array]:
            """How far away it is, and where two rounds lead: after one, inputs are what they are there."""
            assert self._point is not None
            machine.renew()
            machine.restore(self._point[0])
            machine.put(before + way)
            away = machine.values() - before  # some units do not let themselves be put anywhere
            for _ in range(self._steps if rows else 2 * self._steps):
                machine.go(step)
            if rows:
                machine.over(step, self._steps)
            return away, machine.values()

        machine.renew()
        machine.over(step, self._steps)
        here = machine.values()
        if self._point is None or not same():
            return same()
        jumps = 10.0 * LOOSE if machine.adaptive else 0.0  # of solvers' own errors
        for way in ways:
            away, there = ahead(way)
            if not same():
                return False
            # Where values jump (a relay) slopes may be the same on both sides, but half is not halfway.
            _, half = ahead(0.5 * way, rows=False)
            size = np.abs(here) + np.abs(there)
            scale = np.abs(whole) @ (np.abs(whole) @ np.abs(away))
            bound = max(known, CHANGED) * scale + known * size + jumps * (1.0 + size)
            if not (np.abs(half - 0.5 * (here + there)) <= bound)[own].all():
                return False
        return True

    def _nearby(self, away: Array, point: Array, step: float) -> Array:
        """The matrix where the point of rest may as well be: it is known only so well.

        Newton's method goes by too little, where slopes vanish with the distance, and rounding hides what
        steps still do. The other of both sides is the one where the matrix differs more.
        """
        assert self._machine is not None
        assert self._point is not None
        machine, whole, moves = self._machine, self._machine.whole, self._machine.moves
        left, sizes, right = np.linalg.svd(np.eye(len(point)) - whole)
        hidden = ROUNDED * (1.0 + np.abs(point)) @ np.abs(left[:, -1]) / max(float(sizes[-1]), ROUNDED)
        hidden = min(hidden, UNSURE) * right[-1]
        kept = np.flatnonzero(moves)
        found: list[Array] = []
        for side in (hidden, -hidden):
            machine.renew()
            machine.restore(self._point[0])
            machine.put(point + BESIDE * away + side)
            machine.over(step, self._steps)
            found.append(machine.whole[np.ix_(kept, kept)])
        machine.whole, machine.moves = whole, moves
        here = whole[np.ix_(kept, kept)]
        return max(found, key=lambda one: float(np.abs(one - here).max(initial=0.0)))

    def _stand(self, machine: Followed, step: float) -> None:
        """Find out how many steps it takes from here until all comes again, and remember the point."""
        self._steps = machine.period(step)
        self._point = (machine.save(), machine.values()) if machine.reusable else None

    @property
    def reach(self) -> float:
        """How far from the last point slopes have to be looked at, relatively; 0: nowhere else."""
        assert self._machine is not None
        return self._machine.reach if self.looks else 0.0

    @property
    def looks(self) -> bool:
        """Whether steps can, and have to, be made from beside the last point."""
        assert self._machine is not None
        return self._point is not None and not self._machine.linear

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of all of the extended state."""
        assert self._machine is not None
        return self._machine.extended.names

    @property
    def ports(self) -> tuple[str, ...]:
        """The states and ports that these are about."""
        assert self._machine is not None
        return self._machine.extended.ports

    @property
    def adaptive(self) -> bool:
        """Whether some solver chooses its own steps, so that its error may jump from one to the next."""
        assert self._machine is not None
        return self._machine.adaptive

    @property
    def point(self) -> Array:
        """The extended state at the last point."""
        assert self._point is not None
        return self._point[1]

    def beside(self, step: float, away: Array, *, rows: bool = True) -> Nearby:
        """A step from beside the last point, with its matrix if `rows` are asked for."""
        assert self._machine is not None
        assert self._point is not None
        token, values = self._point
        machine = self._machine
        machine.restore(token)
        machine.put(values + away)
        really = machine.values() - values  # some units do not let themselves be put anywhere
        if rows:
            machine.over(step, self._steps)
        else:
            for _ in range(self._steps):
                machine.go(step)
        return Nearby(really, machine.values(), machine.whole, machine.moves)

    def without_matrix(self, step: float, at: At) -> Induced:
        """What is known of a step that could not be followed to its end."""
        try:
            machine = self.machine(step)
            names, ports = machine.extended.names, machine.extended.ports
            linear, notes = machine.linear, machine.notes
        except NoMatrix:  # not even what its state would be is known
            names, ports, linear, notes = (), (), False, ()
        matrix = np.full((len(names), len(names)), np.nan)
        begun, rest = at == "start", at == "rest"
        return Induced(matrix, step, names, ports, linear, self._checked(at), np.inf, notes, rest, begun)

    def _checked(self, at: At) -> float:
        """The time of a point; that of a point at rest is the start."""
        span = self._experiment.span
        if isinstance(at, str) and at in ("start", "rest"):
            return span.start
        if not isinstance(at, (int, float)) or isinstance(at, bool) or not abs(at) < 1e300:
            raise InvalidInput(f'at is "start", "rest" or a time of the run, not {at!r}')
        if not span.start <= at <= span.stop:
            raise InvalidInput(
                f"{at:g} s is not a time of the run ({span.start:g} to {span.stop:g} s). Linearise at one "
                'that is (at=…, --at), at the "start" or at "rest".'
            )
        return float(at)

    def _steps_to(self, time: float, step: float, machine: Followed) -> int:
        """How many steps it is to a time; none, if the point does not matter."""
        count = 0 if machine.linear else round(min((time - self._start) / step, 2.0 * FOLLOWED))
        if count > FOLLOWED:
            raise InvalidInput(
                f"following the run to t = {time:g} s takes more than {FOLLOWED:,} steps of {step:g} s. "
                "Linearise at an earlier time, or take larger steps."
            )
        return count

    @property
    def first(self) -> int:
        """The number of the first of the steps `along` which there are matrices."""
        assert self._machine is not None
        return self._machine.depth

    @property
    def whole(self) -> Array:
        """The matrix of the last step over all of the extended state."""
        assert self._machine is not None
        return self._machine.whole

    @property
    def moves(self) -> npt.NDArray[np.bool_]:
        """Which entries of the whole the last step did not simply leave as they were."""
        assert self._machine is not None
        return self._machine.moves

    def along(self, steps: Sequence[float], every: int = 1) -> Iterator[Induced]:
        """The matrices of steps one after the other, after those that complete the histories."""
        machine = self.machine(steps[0], alike=False)
        if machine.unseen_along:
            raise NoMatrix(f"{machine.unseen_along}.")
        machine.begin()
        looked = {machine.depth + (len(steps) - 1 - machine.depth) * k // LOOKED for k in range(LOOKED + 1)}
        self._steps = 1
        for number, step in enumerate(steps):
            machine.renew()
            if number < machine.depth or number % every:
                machine.go(step)
                continue
            looks = number in looked and machine.reusable and not machine.linear and machine.reach > 0.0
            self._point = (machine.save(), machine.values()) if looks else None
            found = machine.induced(step)
            if looks:  # a run that rests on a kink is nowhere linear
                whole, moves, after = machine.whole, machine.moves, machine.save()
                self._check_alike(step, found)
                machine.restore(after)
                machine.whole, machine.moves = whole, moves
            yield found

    def after(self, policies: Sequence[tuple[str, float]], at: At = "start") -> tuple[Array, Induced]:
        """The matrix of the last of these steps, each by its block, over all of the extended state.

        They begin at the point `at`; to a time of the run lead steps like the first of them.
        """
        time, first = self._checked(at), policies[0][1]
        machine = self.machine(first)
        if at == "rest" and not machine.linear:
            if self._at_rest is None:
                self.rest(first)
                machine = self.machine(first)
            machine.begin(self._at_rest)
        else:
            machine.begin()
        for _ in range(self._steps_to(time, first, machine)):
            machine.go(first, policies[0][0])
            machine.renew()
        for block, step in policies[:-1]:
            machine.go(step, block)
        block, step = policies[-1]
        if not machine.linear:
            self._stand(machine, step)
        before = machine.values()
        found = machine.induced(step, block)
        whole = machine.whole
        if at != "rest" and self._steps == 1 and (moving := self._moving(before, step, found, named(at))):
            raise NoMatrix(f"{moving}.")
        self._check_alike(step, found)
        return whole, found

    def _check_alike(self, step: float, found: Induced) -> None:
        """That a single matrix is what a step does, whenever it comes and wherever a deviation is."""
        if found.linear:
            return
        if found.unseen:
            raise NoMatrix(f"{found.unseen}, so that no proof for steps holds.")
        if self._steps > 1:
            raise NoMatrix(
                f"steps of {step:.6g} s are not all alike: only {self._steps} of them together come again, "
                "because of the time or of samples, so that no single matrix stands for each."
            )
        if self.reach and found.size and Kinks(self, step, found, self.reach).meet():
            raise NoMatrix(
                "slopes jump at the operating point, so that no single matrix says what a step does there. "
                "Choose another point (at=…, --at)."
            )

    def rest(self, step: float, *, most: int = 60, tolerance: float = 1e-9) -> Induced:
        """The matrix at a point that a step leaves as it is, searched from the start by Newton's method.

        Where a step changes hardly anything the point itself may still be far: it has to have come to rest
        as well. What is linear has the same matrix everywhere, and needs no search.
        """
        machine = self.machine(step)
        if machine.linear:
            return self.model(step)
        machine.begin(self._at_rest)
        for _ in range(machine.depth):
            machine.go(step)
        moved = nearer = np.inf
        for _ in range(most):
            before = machine.values()
            self._point = (machine.save(), before) if machine.reusable else None
            found = machine.induced(step)
            change = machine.values() - before
            try:
                away = np.linalg.lstsq(np.eye(len(before)) - machine.whole, change, rcond=None)[0]
            except np.linalg.LinAlgError:
                break
            moved, far = (
                float(np.max(np.abs(by) / (1.0 + np.abs(before)), initial=0.0)) for by in (change, away)
            )
            # Rounding keeps some searches from ever coming nearer.
            if moved <= tolerance and (far <= tolerance or far >= nearer):
                self._at_rest = before[: len(machine.extended.states)]
                if self._point is not None:
                    machine.restore(self._point[0])
                    self._stand(machine, step)
                    found = machine.over(step, self._steps)
                    found = replace(found, again=self._nearby(away.astype(float), before, step))
                states = zip(machine.extended.names, self._at_rest.tolist(), strict=False)
                return replace(found, point=tuple(states), rest=True)
            nearer = far
            machine.put(before + away)
        raise InvalidInput(
            f"no operating point at rest was found within {most} steps of Newton's method (the last one "
            f"still changes by {moved:.3g} over a communication step). Linearise at a time of the run "
            'instead (at=5.0, --at 5), or at the start (at="start").'
        )


def _ways(whole: Array, change: Array, own: npt.NDArray[np.bool_], point: Array) -> Iterator[Array]:
    """How far all is from a point after 2, 4, 8, … steps, if all of them are like this one.

    The last is a little beyond where they arrive, if they do. What no state moves, as times in registers,
    stays where it is.
    """
    moving = own
    for _ in range(len(own)):
        more = moving | whole[:, moving].any(axis=1)
        if (more == moving).all():
            break
        moving = more
    decays = float(np.abs(np.linalg.eigvals(whole)).max()) < 1.0 + RESTS  # the times in registers stay
    far = 1e15 if decays else FURTHEST
    power, way = np.where(moving[:, None] & moving[None, :], whole, 0.0), np.where(moving, change, 0.0)
    for _ in range(DOUBLED):
        with np.errstate(over="ignore", invalid="ignore"):
            further = way + power @ way
            known = np.isfinite(further).all() and np.isfinite(power).all()
        if not known or not (np.abs(further) <= far * (1.0 + np.abs(point)))[own].all():
            return
        yield further
        if (np.abs(further - way) <= ARRIVED * np.abs(further))[own].all():
            yield (1.0 + 2.0 * ARRIVED) * further
            return
        with np.errstate(over="ignore", invalid="ignore"):
            way, power = further, power @ power


def named(at: At) -> str:
    """A point of linearisation in words."""
    return "the start" if at == "start" else "rest" if at == "rest" else f"t = {at:.6g} s"


def told(word: str, what: str, *, linear: bool, at: At) -> str:
    """A verdict in one sentence; one that does not hold everywhere is labelled local, with its point."""
    if linear:
        return f"{word}: {what}"
    head = word if word == "Undecided" else f"Locally {word.lower()}"
    return f"{head}: for small motions around {named(at)}, {what}"


def check_blocks(wanted: Sequence[str], program: Program) -> None:
    """That a program has these step blocks."""
    for name in wanted:
        if name not in program.steps:
            raise InvalidInput(
                f"there is no step block '{name}'. {suggest(name, program.steps, 'step blocks')} The "
                "coupling Variants gives a program several."
            )
