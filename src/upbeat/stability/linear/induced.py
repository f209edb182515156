"""The induced model: the matrix that one communication step applies to the extended state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, RunError, suggest
from upbeat.core.time import Span, checked_step
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.isolation import Isolation, together
from upbeat.engine.nesting.model import nested_of
from upbeat.engine.settings import Settings
from upbeat.master.paces.pace import EventDriven, Fixed, equal_steps
from upbeat.master.program import Program
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.flows import balanced
from upbeat.stability.linear.followed import USUAL, Followed, Induced
from upbeat.stability.linear.forms import Array, NoMatrix
from upbeat.stability.linear.inner_steps import check_inside, different, fitting, fixed_inside

# ----------------------------------------------------------------------------------------------------
# What is to be judged: the experiment, and the size of its steps.


class NoSize(InvalidInput):
    """A verdict on steps of one size, where a pace chooses them as it goes."""


def experiment_of(given: Scenario | Experiment, settings: Settings, step: float | None = None) -> Experiment:
    """What is to be judged; a scenario comes with its settings, an experiment has them.

    The size of steps that is judged will do for a pace.
    """
    if isinstance(given, Experiment):
        if settings:
            raise InvalidInput(
                f"an experiment has its settings already: leave out {', '.join(settings)}, or change them "
                "with up.load(file, …) or experiment.with_(…)"
            )
        return _unchanged(given)
    if settings.get("until") is None:
        settings = {**settings, "until": (settings.get("start") or 0.0) + 1e9}
    if settings.get("pace") is None and step is not None:
        settings = {**settings, "pace": checked_step(step, "the step of stability")}
    return _unchanged(experiment(given, **settings))


def _unchanged(given: Experiment) -> Experiment:
    """Refuse what is another system later: a verdict would hold for its beginning only."""
    for t, name, _ in given.later():
        raise InvalidInput(
            f"a signal changes '{name}' at t = {t:.9g}, and a verdict on steps is about one set of values: "
            f"leave out the column, and judge each of them by itself (--set {name}=…)"
        )
    return given


def step_of(made: Experiment, step: float | None) -> float:
    """The size of the steps to be judged."""
    if step is not None:
        return checked_step(step, "the step of stability")
    own = equal_steps(made.master.pace)
    if own is not None:
        return own
    raise NoSize(
        f"the pace {type(made.master.pace).__name__} chooses steps as it goes, and a verdict is about steps "
        "of one size. Say which: step=0.01, or --step 0.01. Steps of several sizes are judged together by "
        "up.certified(…), or --steps 0.01,0.02."
    )


# ----------------------------------------------------------------------------------------------------
# Kinks: whether slopes jump at an operating point, so that several linear pieces meet there.
#
# A matrix is that of the branch which is taken at the point itself. To the other side of a limit, or of an
# absolute value, it may be another one; and where values themselves jump there is none at all.

ALIKE = 1e-7
"""Slopes that differ by less, relatively to the whole matrix in balanced units, are the same …"""
SMALLER = 16.0
"""… and so are those whose difference is smaller at a distance so much smaller: there is no kink."""
JUMP = 1e-9
"""What is left over of a step's end, relatively, compared with any slope: then values jump."""
LOOSE = 1e-5
"""The same where solvers choose their steps, so that their errors may jump as well."""

LENGTHS = (1.0, 1.0 / 8.0, 1.0 / 64.0)
"""At these distances steps from near a point are compared with what its slopes say, in parts of …"""
NEAR, OFF, ROUNDING = 1e-5, 1e-3, 1e-14
"""… the first of these, relatively; slopes may be off by the second, and rounding makes the third …"""
NEAR_LOOSE, OFF_LOOSE = 1e-2, 1e-2
"""… or these where solvers choose their steps."""


class Nearby(NamedTuple):
    """A step from near an operating point: how far that was, where it led, its matrix over all of the
    extended state, and which entries it moves."""

    away: Array
    end: Array
    matrix: Array
    moves: npt.NDArray[np.bool_]


class Stands(Protocol):
    """Whoever has found a matrix at a point (see `Inducing`), and can make a step from near it."""

    @property
    def point(self) -> Array: ...

    @property
    def entries(self) -> tuple[str, ...]: ...

    @property
    def adaptive(self) -> bool: ...

    def step_nearby(self, step: float, away: Array, *, rows: bool = True) -> Nearby: ...


class Kinks:
    """Looks whether several linear pieces meet at the last operating point of `inducing`.

    `found` is the matrix there. Slopes are looked at again near the point, to all sides.
    """

    def __init__(self, inducing: Stands, step: float, found: Induced, far: float) -> None:
        self._inducing, self._step, self._found = inducing, step, found
        self._turn = np.random.default_rng(5)
        self._sizes = far * (1.0 + np.abs(inducing.point))
        self._tolerance = max(ALIKE, 100.0 * found.accuracy)
        self._here = self._at(np.zeros(len(inducing.point)))

    def _at(self, direction: Array, size: float = 1.0, *, rows: bool = True) -> Nearby:
        return self._inducing.step_nearby(self._step, size * self._sizes * direction, rows=rows)

    def _random(self) -> Array:
        count = len(self._sizes)
        way: Array = self._turn.uniform(0.5, 1.0, count) * self._turn.choice([-1.0, 1.0], count)
        return way

    def meet(self) -> list[Nearby]:
        """Steps in some of the pieces, if there are several; `NoMatrix` if values jump."""
        pairs = [self._random() for _ in range(2)]
        directions = [side * one for one in pairs for side in (1.0, -1.0)]
        near = [self._at(one) for one in directions]
        for one, way in zip(near, directions, strict=True):
            self._check_jump(one, way)
        apart = [self._apart(one.matrix) for one in near]
        if max(apart) <= self._tolerance:
            return []
        closer = [self._apart(self._at(one, 1.0 / SMALLER).matrix) for one in directions]
        if all(b <= max(4.0 * a / SMALLER, self._tolerance) for a, b in zip(apart, closer, strict=True)):
            return []
        return near

    def _apart(self, matrix: Array, other: Array | None = None) -> float:
        """How far a matrix is from that at the point, relative to its size in balanced units."""
        base = self._here.matrix if other is None else other
        scaled, units = balanced(base)
        return float(np.abs((matrix - base) * units[None, :] / units[:, None]).max()) / (
            float(np.abs(scaled).max()) or 1.0
        )

    def check_slopes(self) -> None:
        """That a step from near the point ends where its slopes say; `NoMatrix` if not.

        What curvature adds shrinks with the distance, relatively, and what rounding adds grows. Slopes that
        are not those of the step, or only those to one side, are off by the same at all distances.
        """
        loose, point = self._inducing.adaptive, np.abs(self._inducing.point)
        long, off, noise = (NEAR_LOOSE, OFF_LOOSE, LOOSE) if loose else (NEAR, OFF, ROUNDING)
        lengths = long * np.where(point > 0.0, point, 1.0)
        way, here = self._random() * lengths, self._here
        counts = here.moves & here.matrix.any(axis=0)  # what nothing depends on is not always followed
        for side in (way, -way):
            parts = []
            for size in LENGTHS:
                near = self._inducing.step_nearby(self._step, size * side, rows=False)
                left = np.abs(near.end - here.end - here.matrix @ near.away)
                parts.append(np.maximum(left - noise * (1.0 + np.abs(here.end)), 0.0) / size)
            far, middle, close = parts
            same = (
                (far <= 2.0 * middle)
                & (middle <= 2.0 * far)
                & (middle <= 2.0 * close)
                & (close <= 2.0 * middle)
            )
            wrong = counts & same & (close > off * (np.abs(here.matrix) @ np.abs(side)))
            if wrong.any():
                place = int(np.argmax(np.where(wrong, close, 0.0)))
                raise NoMatrix(
                    "slopes jump at the operating point, or are not those of a step: near it, "
                    f"{self._inducing.entries[place]} ends elsewhere than they say, however small a "
                    "deviation is. Choose another point (at=…, --at)."
                )

    def _check_jump(self, one: Nearby, way: Array) -> None:
        """Values may not jump: where pieces fit together, a step ends as far away as slopes let expect."""
        for size in (1.0, 1.0 / SMALLER):
            near = one if size == 1.0 else self._at(way, size)
            away = np.abs(near.away)
            slopes = np.maximum(np.abs(near.matrix), np.abs(self._here.matrix))
            left = np.abs(near.end - self._here.end - near.matrix @ near.away)
            noise = LOOSE if self._inducing.adaptive else JUMP
            bound = 4.0 * slopes @ away + noise * (1.0 + np.abs(self._here.end))
            if not (left > bound).any():
                return
        place = int(np.argmax(np.where(left > bound, left, 0.0)))
        raise NoMatrix(
            f"{self._inducing.entries[place]} jumps at the operating point, however small a deviation is (a "
            "sign, a comparison, a table of steps): nothing linear describes that. Choose another point "
            "(at=…, --at)."
        )


# ----------------------------------------------------------------------------------------------------
# Modes that change along a run: deviations then change theirs sooner or later than the run does.

HALVINGS = 30
"""So many times the way on which a value jumps is halved: a kink is below rounding by then."""
SMOOTHER = 0.26
"""Where curvature alone bends a way, its halves bend by a quarter of that."""
SHORT = (1.0 / 16.0, 1.0 / 128.0)
"""Slopes are compared with what a step does over these parts of the way that it makes …"""
OTHERS = 0.1
"""… and are others if they are off by more, relatively; by less where a solver goes over a kink."""
NOT_SET_BACK = (
    "a unit cannot be set back, so it cannot be checked whether values jump on the way (a relay, a limit): "
    "matrices of steps do not contain that"
)


class Crossings:
    """Looks whether the steps of a run, made from where others of them begin, end where their slopes say.

    A relay that switches on the way has the same slopes before and after, and what a deviation becomes is in
    neither. So each step is made again from the points between its two ends, and from some near it: what
    jumps there jumps for deviations. A solver that finds the place makes no jump, but its slopes are others.
    """

    def __init__(self, machine: Followed) -> None:
        self._machine, self._turn = machine, np.random.default_rng(7)
        self._before = np.zeros(0)
        self._last: dict[str, Array] = {}  # where events of discrete units were
        self.off = 0.0
        """By how much slopes of the last step are off, relatively."""

    def look(self, token: Any, point: Array, step: float, whole: Array) -> str:
        """Why its matrix is not all that a step does, in words; nothing if it is. It began at the `point`."""
        machine = self._machine
        end = machine.values()
        moving = _moved_by_states(whole, np.array(machine.extended.own, dtype=bool))
        change = np.where(moving, end - point, 0.0)
        wide = np.maximum(np.abs(change), np.abs(self._before)) if len(self._before) else np.abs(change)
        self._before = change
        noise = (LOOSE if machine.adaptive else JUMP) * (1.0 + np.abs(end))
        ways = [change, 2.0 * wide * self._turn.choice([-1.0, 1.0], len(wide))]
        if machine.jumped:  # samples: from where the last ones were taken
            ways += [np.where(moving, self._last[u] - point, 0.0) for u in machine.jumped if u in self._last]
            self._last |= dict.fromkeys(machine.jumped, point)

        def ends(way: Array) -> Array:
            machine.renew()
            machine.restore(token)
            machine.put(point + way)
            machine.go(step)
            return machine.values()

        at, self.off = machine.time_of(token), 0.0
        for number, way in enumerate(ways):
            if not way.any():
                continue
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    wrong = self._slopes_off(ends, way, end, whole, noise) if number < 2 else np.zeros(1)
                    self.off = max(self.off, float(wrong.max()))
                    if not (wrong > OTHERS).any():  # the other takes longer
                        wrong = self._jumps(ends, way, end, noise)
            except RunError as error:
                return f"a step from close to where the run is at t = {at:.6g} s fails ({error})"
            if wrong.any():
                shown = np.where(machine.extended.own, wrong, 0.0)
                name = machine.extended.ports[int(np.argmax(shown if shown.any() else wrong))]
                return (
                    f"{name} jumps close to where the run is at t = {at:.6g} s, or its slopes do while a "
                    "step is made (a relay, a sign, a comparison): deviations change modes sooner or later "
                    "than the run does, and no matrix of a step contains that"
                )
        return ""

    @staticmethod
    def _jumps(ends: Callable[[Array], Array], way: Array, start: Array, noise: Array) -> Array:
        """By how much values jump on the way from a point (which leads to `start`), entry by entry."""
        low, middle, high = start, ends(0.5 * way), ends(way)
        first, last = 0.0, 1.0
        nothing = np.zeros(len(start))
        bend = _bend(low, middle, high, noise)
        for _ in range(HALVINGS):
            if not bend.any():
                return nothing
            quarter = 0.25 * (last - first)
            left, right = ends((first + quarter) * way), ends((last - quarter) * way)
            before, after = _bend(low, left, middle, noise), _bend(middle, right, high, noise)
            if max(before.max(), after.max()) <= SMOOTHER * bend.max():
                return nothing
            if before.max() >= after.max():
                bend, middle, high, last = before, left, middle, last - 2.0 * quarter
            else:
                bend, low, middle, first = after, middle, right, first + 2.0 * quarter
        return bend

    @staticmethod
    def _slopes_off(
        ends: Callable[[Array], Array], way: Array, end: Array, whole: Array, noise: Array
    ) -> Array:
        """By how much slopes at a point are not those of a step, relatively, however short the way is."""
        expected, size = whole @ way, np.abs(whole) @ np.abs(way)
        found = []
        for part in SHORT:
            both = [np.abs(ends(sign * part * way) - end - sign * part * expected) for sign in (1.0, -1.0)]
            found.append(np.maximum(np.maximum(*both) - noise, 0.0) / part)
        far, close = found
        wrong = (close > OFF * size) & (close > 0.5 * far)
        return np.where(wrong, close / np.where(wrong, size, 1.0), 0.0)


def _bend(low: Array, middle: Array, high: Array, noise: Array) -> Array:
    """How far the middle of three values is from halfway between the others, as far as that is no noise."""
    found: Array = np.maximum(np.abs(low - 2.0 * middle + high) - noise, 0.0) / noise
    return found


# ----------------------------------------------------------------------------------------------------

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
NEARBY, ROUNDED, UNSURE = 4.0, 1e-15, 1e-3
"""A point of rest may be so many times further away than Newton's method says last, where slopes vanish there
as those of x² do; and by as much as rounding of a step's end hides, if that is no more than this."""
FOLLOWED = 200_000
"""The most steps of a run that are followed to a point of linearisation."""


class Inducing:
    """Finds the matrices of one experiment for any number of steps. A context manager: it holds units.

    `ideal`: every unit as if it were solved without error, so that only the coupling is judged. `blocks`: the
    step blocks of the program that steps are made by; those that do not say are made by the first. `sizes`:
    those of the steps, where several follow each other. All that may take so many `seconds` on the wall.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        ideal: bool = False,
        blocks: Sequence[str] = (USUAL,),
        sizes: Iterable[float] = (),
        seconds: float = np.inf,
    ) -> None:
        self._experiment = experiment
        self._until = monotonic() + seconds
        self.ideal = ideal
        self._blocks = tuple(blocks)
        self._sizes = different(sizes)
        self._nested = any(nested_of(model) is not None for model in experiment.closed.units.values())
        self.inside = fixed_inside(together(experiment.closed)) if self._nested else ()
        """The sizes of steps inside nested scenarios: others have to fit them."""
        self._machine: Followed | None = None
        self._steps = 1
        self._point: tuple[Any, Array] | None = None  # where the last matrix was asked for
        self._at_rest: Array | None = None  # the states of units: the search for other steps begins there
        self.off = 0.0
        """By how much slopes of the last step `along` a run are not those of the step, relatively."""
        self.crossed = ""
        """Why the matrices of steps `along` a run do not say what becomes of deviations, in words."""

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
            self._machine.limit(lambda: monotonic() > self._until)
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
        own, stored = (np.array(of, dtype=bool) for of in (machine.extended.own, machine.extended.stored))
        if not machine.curved or not found.size or not np.isfinite(whole).all():
            return ""
        moved = np.abs(change) > RESTS * np.abs(before)
        if (moved & own & stored).any():  # whatever it goes through on its way, a few points do not show it
            place = int(np.argmax(moved & own & stored))
            return (
                f"{where} is not a point of rest: the adaptation changes {self.entries[place]} by "
                f"{change[place]:.3g} in a step, by itself, and slopes may depend on it; "
                'at="rest" (--at rest) judges the point where it settles, if it does, up.stability_along '
                "(--along) the run"
            )
        own |= stored
        if not moved[own].any():
            return ""
        if machine.hidden:
            return (
                f"{where} is not a point of rest, and {machine.hidden}: which of its events happen on the "
                'way, and what they change, is in no matrix; at="rest" (--at rest) judges the point where it '
                "settles, up.stability_along (--along) the run"
            )
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
        own |= np.array(machine.extended.stored, dtype=bool)
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
            machine.put(point + NEARBY * away + side)
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
        """Whether steps can, and have to, be made from near the last point."""
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

    def step_nearby(self, step: float, away: Array, *, rows: bool = True) -> Nearby:
        """A step from near the last point, with its matrix if `rows` are asked for."""
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

    def along(self, steps: Sequence[float]) -> Iterator[Induced]:
        """The matrices of steps one after the other, after those that complete the histories.

        Where values jump on the way, that is the end of it, and `crossed` says so: no matrix contains that.
        """
        machine = self.machine(steps[0], alike=False)
        if machine.unseen_along:
            raise NoMatrix(f"{machine.unseen_along}.")
        machine.begin()
        looked = {machine.depth + (len(steps) - 1 - machine.depth) * k // LOOKED for k in range(LOOKED + 1)}
        self._steps = 1
        kinks = not machine.linear and machine.reach > 0.0
        jumps = kinks or machine.sampled
        self.crossed = "" if machine.reusable or not jumps else NOT_SET_BACK
        crossings = Crossings(machine)
        for number, step in enumerate(steps):
            machine.renew()
            if number < machine.depth:
                machine.go(step)
                continue
            looks = machine.reusable and jumps
            self._point = (machine.save(), machine.values()) if looks else None
            found = machine.induced(step)
            if self._point is not None:
                whole, moves, after = machine.whole, machine.moves, machine.save()
                if kinks and number in looked:  # a run that rests on a kink is nowhere linear
                    self._check_alike(step, found)
                    machine.restore(after)
                if jumps and np.isfinite(whole).all():
                    self.crossed, self.off = crossings.look(*self._point, step, whole), crossings.off
                    machine.restore(after)
                machine.whole, machine.moves = whole, moves
            yield found
            if self.crossed:
                return

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

    def rest(self, step: float, *, max_iterations: int = 60, tolerance: float = 1e-9) -> Induced:
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
        for _ in range(max_iterations):
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
            f"no operating point at rest was found within {max_iterations} steps of Newton's method (the "
            f"last one still changes by {moved:.3g} over a communication step). Linearise at a time of the "
            'run instead (at=5.0, --at 5), or at the start (at="start").'
        )


def _moved_by_states(whole: Array, own: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which entries the states of units move, themselves among them; times in registers are not."""
    moving = own
    for _ in range(len(own)):
        more = moving | whole[:, moving].any(axis=1)
        if (more == moving).all():
            break
        moving = more
    return moving


def _ways(whole: Array, change: Array, own: npt.NDArray[np.bool_], point: Array) -> Iterator[Array]:
    """How far all is from a point after 2, 4, 8, … steps, if all of them are like this one.

    The last is a little beyond where they arrive, if they do. What no state moves, as times in registers,
    stays where it is.
    """
    moving = _moved_by_states(whole, own)
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


def verdict_sentence(word: str, what: str, *, linear: bool, at: At) -> str:
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
