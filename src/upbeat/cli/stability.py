"""`upbeat stability`: verdicts, scans, comparisons and certificates."""

from __future__ import annotations

import argparse
import enum
import json
import sys
from math import isfinite, log
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, complain, say
from upbeat.cli.exits import Exit
from upbeat.core.abilities import FromFile
from upbeat.core.errors import InvalidInput, RunError
from upbeat.engine.experiment import Experiment
from upbeat.master.paces.pace import Lists
from upbeat.report.plot import checked_target
from upbeat.report.stability import (
    Undrawable,
    along,
    changes,
    describe,
    describe_steps,
    describe_table,
    plot_automaton,
    plot_map,
    plot_stability,
    sentence,
    sentence_of_table,
    table,
)
from upbeat.stability.hybrid.late import LateSwitches, late_switches
from upbeat.stability.linear.followed import USUAL
from upbeat.stability.linear.induced import At, NoSize, named
from upbeat.stability.switched.policies import Certified, Held, certified, table_holds, tabled
from upbeat.stability.verdicts.along import Along, stability_along
from upbeat.stability.verdicts.compare import Alternative, compare_couplings
from upbeat.stability.verdicts.judge import SECONDS, Stability, stability_of
from upbeat.stability.verdicts.pieces import StabilityMap, stability_map

# ----------------------------------------------------------------------------------------------------
# `--certify`: a run that is proven to be unstable does not begin; one that is not proven stable says so.

GROWN = 1e3
"""A run in which some motion grows by so much around its operating point is clearly unstable."""


class Unstable(InvalidInput):
    """A run that is proven to grow."""


def certify(made: Experiment, *, at: At = "start", quiet: bool = False) -> None:
    """Refuse what is proven to be unstable, and FMUs that clearly are; warn where nothing is proven.

    What is not linear is judged around the point `at`.
    """
    try:
        listed = tabled(made.master.pace)
        if listed is not None:
            _certify_table(made, listed, at, quiet)
            return
        found = stability_of(made, at=at, scan=False)
    except Unstable:
        raise
    except NoSize:
        pace = type(made.master.pace).__name__
        complain(
            f"upbeat: warning: nothing is proven about the stability of this run: the pace {pace} chooses "
            "steps as it goes. 'upbeat stability FILE --steps 0.01,0.02' (sizes of your choice) says in "
            "which sequences steps are proven to decay, and the pace 'monitored' keeps this one to them."
        )
        return
    except (InvalidInput, RunError) as error:
        complain(f"upbeat: warning: nothing is proven about the stability of this run: {error}")
        return
    if found.verdict == "unstable" and (found.linear or _explodes(made, found)):
        advice = changes(stability_of(made, at=at))
        more = f" What to change: {'; '.join(advice)}." if advice else ""
        raise Unstable(f"{sentence(found)}{more} Leave out --certify to run it all the same.")
    if found.verdict != "stable" or found.local:
        complain(f"upbeat: warning: not proven to be stable. {sentence(found)}")
    elif not quiet:
        complain(f"upbeat: certified. {sentence(found)}")


def _explodes(made: Experiment, found: Stability) -> bool:
    """Whether FMUs are in it, and motions around the point grow a thousandfold within the run.

    An FMU cannot be proven to be linear, so that no verdict on one holds everywhere. But a motion that
    grows so fast is not waved through.
    """
    if not any(isinstance(model, FromFile) for model in made.closed.units.values()):
        return False
    steps = (made.span.stop - made.span.start) / found.step
    surely = found.mode.radius - found.mode.uncertainty
    return surely > 1.0 and steps * log(surely) > log(GROWN)


def _certify_table(made: Experiment, given: Lists, at: At, quiet: bool) -> None:
    """The sequences that a monitor lets through: proven again, because anybody may have written its table.

    A pattern is a table with one way through it.
    """
    pace = given.table()
    held = table_holds(made, pace, at=at)
    found, linear = held.decision, held.linear
    if found.verdict == "unstable" and linear:
        what = (
            f"the table of Monitored lets steps of {held.growing} through, which grow when repeated. 'upbeat "
            "stability FILE --steps …' makes a table that is proven."
            if given is pace
            else f"the pattern repeats steps of {held.growing}, which grow. 'upbeat stability FILE --steps "
            "…' says which sequences are proven to decay."
        )
        raise Unstable(f"Unstable: {what} Leave out --certify to run it all the same.")
    if found.verdict != "stable" or not linear:
        why = found.why or (
            f"some sequence grows near {named(at)}"
            if found.growing
            else f"the scenario is not linear, and the proof holds near {named(at)} only"
        )
        complain(f"upbeat: warning: not proven to be stable: {why}")
    elif not quiet:
        which = (
            "Every sequence of steps that Monitored lets through" if given is pace else "The pattern of steps"
        )
        complain(f"upbeat: certified. {which} is proven to decay.")


# ----------------------------------------------------------------------------------------------------
# Which options of `upbeat stability` belong to which way of judging; all others are refused, not ignored.

SIZES = "say which sizes, such as --steps 0.05,0.1"


class Mode(enum.Enum):
    """What is judged, and what to type for options that do not belong to that."""

    SINGLE = "steps of one size", SIZES
    BLOCK = "one step block", "leave them out, or --block"
    SEVERAL = "steps of several sizes together", "leave out --steps, and give one size by --step 0.1"
    TABLE = (
        "the sequences of steps that the file's own pace makes",
        "say which size to judge, such as --step 0.1",
    )


ONE = frozenset({Mode.SINGLE, Mode.BLOCK})
BELONGS = {
    "ideal": ONE | {Mode.SEVERAL},
    "scan": ONE,
    "no_scan": ONE,
    "along": frozenset({Mode.SINGLE}),
    "compare": frozenset({Mode.SINGLE}),
    "map": frozenset({Mode.SINGLE}),
    "block": frozenset({Mode.BLOCK, Mode.SEVERAL}),
    "lift": frozenset({Mode.SEVERAL}),
    "step": ONE,
}
"""By option. Those that are not here (the point, how the answer is told or drawn) belong to all modes."""


def refuse_others(options: argparse.Namespace, mode: Mode) -> None:
    """Every option that would do nothing in this mode is an error."""
    given = [name for name in BELONGS if getattr(options, name) not in (None, False)]
    wrong = [name for name in given if mode not in BELONGS[name]]
    if wrong:
        what, advice = mode.value
        if all(BELONGS[name] == {Mode.SEVERAL} for name in wrong):
            advice = SIZES
        shown = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise InvalidInput(f"{shown}: without effect, because this judges {what}; {advice}")


# ----------------------------------------------------------------------------------------------------
# `upbeat stability`: whether a coupled scenario can be trusted, before it runs.

POINTS = 40
"""On each side of a map, unless the option says how many."""
PROMISED = ("verdict", "spectral_radius", "largest_stable_step")
"""What every answer in JSON has."""


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument(
        "--at",
        type=scenario_options.point,
        default="start",
        metavar="T",
        help="where to linearise what is not linear: start, rest (searched for), or a time of the run",
    )
    parser.add_argument(
        "--ideal", action="store_true", help="judge the coupling alone: units as if solved without error"
    )
    parser.add_argument(
        "--scan", type=_range, metavar="LOW:HIGH[:N]", help="look for stable steps between these two sizes"
    )
    parser.add_argument("--no-scan", action="store_true", help="judge the given step only")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"the work of the processor that looking for stable steps, or proofs, may take ({SECONDS:g})",
    )
    parser.add_argument(
        "--along", action="store_true", help="also follow small deviations along the whole run, step by step"
    )
    parser.add_argument("--compare", action="store_true", help="try other couplings, orders and inputs, too")
    parser.add_argument(
        "--map",
        metavar="UNIT.PARAM=LOW:HIGH[:N]",
        help="the spectral radius over step and parameter (steps as --scan says)",
    )
    parser.add_argument(
        "--steps",
        type=_sizes,
        metavar="H,H,…",
        help="steps of several sizes: in which sequences they are proven to be stable",
    )
    parser.add_argument(
        "--lift", type=int, metavar="N", help="with --steps: forbid sequences of N + 1 steps (1)"
    )
    parser.add_argument(
        "--block", metavar="NAME", help="judge this step block, where the coupling has several (variants)"
    )
    parser.add_argument("--plot", type=Path, metavar="PICTURE", help="draw it here (.png, .svg, .pdf)")
    parser.add_argument(
        "--force", action="store_true", help="replace a picture that Upbeat has not drawn, too"
    )
    parser.add_argument("--quiet", action="store_true", help="the verdict only, in one sentence")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    if options.plot is not None:
        checked_target(options.plot, force=options.force)
    if options.scan and options.no_scan:
        raise InvalidInput("--scan and --no-scan contradict each other: leave one of them out")
    if options.seconds is None:
        options.seconds = SECONDS
    elif options.no_scan and not options.along:
        raise InvalidInput("--seconds: without effect, because --no-scan looks for nothing")
    if options.steps is not None:
        refuse_others(options, Mode.SEVERAL)
        # Which pace the file has does not matter here, nor whether it has one.
        options.step = next((size for size in options.steps if isfinite(size) and size > 0.0), None)
    made = scenario_options.experiment(options)
    if made.structures or made.scenario.stage is not None:
        from upbeat.stability.verdicts.structures import without_end

        if made.structures:
            return _structures(made, options)
        made = without_end(made)
    with Waiting(sys.stderr, quiet=options.quiet or options.json) as waiting:
        if options.steps is not None:
            return _several(made, options, waiting)
        listed = tabled(made.master.pace)
        if listed is not None:
            refuse_others(options, Mode.TABLE)
            return _table(made, listed, options)
        refuse_others(options, Mode.SINGLE if options.block is None else Mode.BLOCK)
        return _single(made, options, waiting)


def _structures(made: Experiment, options: argparse.Namespace) -> Exit:
    """Each structure, and switching between them."""
    from upbeat.stability.verdicts.structures import stability_of_structures

    others = ("steps", "block", "map", "compare", "along", "plot")
    for name in others:
        if getattr(options, name) not in (None, False):
            first = next(iter(made.structures))
            raise InvalidInput(
                f"--{name} judges one structure: choose it, such as --structure {first} "
                f"(there are {', '.join(made.structures)})"
            )
    scan = options.scan[:2] if options.scan else False if options.no_scan else None
    with Waiting(sys.stderr, quiet=options.quiet or options.json) as waiting:
        found = stability_of_structures(
            made, at=options.at, ideal=options.ideal, scan=scan, seconds=options.seconds, report=waiting
        )
    switching = f"Switching between structures: {found.switching}, {found.why}."
    if options.json:
        say(_answer(switching, found.data()))
        return Exit.OK
    for name, part in found.parts.items():
        say(f"Structure '{name}': {sentence(part) if options.quiet else describe(part, (), None)}")
        say("") if not options.quiet else None
    say(switching)
    return Exit.OK


def _single(made: Experiment, options: argparse.Namespace, waiting: Waiting) -> Exit:
    """Steps of one size, and what else was asked for."""
    scan: bool | tuple[float, float] | None = False if options.no_scan else None
    points: int | None = None
    if options.scan:
        low, high, points = options.scan
        scan = low, high
    block = options.block or USUAL
    rows = None if options.map is None else _rows(options.map)  # a mistake is told at once, not after a scan
    found = stability_of(
        made,
        at=options.at,
        ideal=options.ideal,
        block=block,
        scan=scan,
        points=points,
        seconds=options.seconds,
        report=waiting,
    )
    blocks = list(made.plan.program.steps)
    others: tuple[Alternative, ...] = ()
    if options.compare:
        others = compare_couplings(
            made, at=options.at, ideal=options.ideal, scan=scan, seconds=options.seconds
        )
    late = late_switches(made)
    way = stability_along(made, ideal=options.ideal, seconds=options.seconds) if options.along else None
    mapped = None if rows is None else _mapped(made, *rows, options, found)
    if options.plot is not None:
        title = made.scenario.name or None
        if mapped is None:
            plot_stability(found, out=options.plot, force=options.force, title=title)
        else:
            plot_map(mapped, out=options.plot, force=options.force, title=title)
    if options.json:
        data = _data(found, others, mapped, way, late)
        data |= {"block": block, "blocks": blocks, "plot": options.plot and str(options.plot)}
        say(_answer(sentence(found), data))
    else:
        say(sentence(found) if options.quiet else describe(found, others, late))
        if mapped is not None and not options.quiet:
            say(f"\n{table(mapped)}")
        if len(blocks) > 1 and not options.quiet:
            rest = ", ".join(name for name in blocks if name != block)
            say(
                f"This is about the step block '{block}'; there are others, {rest}. --block NAME judges one "
                "of them, --steps all of them together."
            )
        if way is not None:
            say(along(way))
        if options.plot is not None and not options.quiet:
            say(f"picture: {options.plot}")
    return Exit.OK


def _table(made: Experiment, given: Lists, options: argparse.Namespace) -> Exit:
    """The sequences of steps that the file's own pace makes."""
    held = table_holds(made, given.table(), at=options.at, seconds=options.seconds)
    drawn = _drawn(held, made, options)
    if options.json:
        say(_answer(sentence_of_table(held), held.data() | {"plot": drawn}))
    else:
        say(sentence_of_table(held) if options.quiet else describe_table(held))
        if drawn and not options.quiet:
            say(f"picture: {drawn}")
    return Exit.OK


def _drawn(found: Certified | Held, made: Experiment, options: argparse.Namespace) -> str | None:
    """The picture of an automaton, if one was asked for. A verdict does not fail for want of one."""
    if options.plot is None:
        return None
    try:
        plot_automaton(found, out=options.plot, force=options.force, title=made.scenario.name or None)
    except Undrawable as error:
        complain(f"upbeat: warning: no picture: {error}")
        return None
    return str(options.plot)


def _several(made: Experiment, options: argparse.Namespace, waiting: Waiting) -> Exit:
    """Policies, one after the other: steps of several sizes, by all step blocks or by one."""
    blocks = None if options.block is None else [options.block]
    lift = 1 if options.lift is None else options.lift
    found = certified(
        made,
        options.steps,
        blocks=blocks,
        lift=lift,
        at=options.at,
        ideal=options.ideal,
        seconds=options.seconds,
        report=waiting,
    )
    drawn = _drawn(found, made, options)
    if options.json:
        say(_answer(str(found), found.data() | {"plot": drawn}))
    else:
        say(str(found) if options.quiet else describe_steps(found))
        if drawn and not options.quiet:
            say(f"picture: {drawn}")
    return Exit.OK


def _answer(sentence: str, data: dict[str, Any]) -> str:
    """One JSON object, with all names that every answer has; null where it does not apply."""
    return json.dumps({"ok": True, "sentence": sentence, **dict.fromkeys(PROMISED), **data})


def _sizes(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of steps. Write such as 0.05,0.1,0.2"
        ) from None


def _data(
    found: Stability, others: tuple[Alternative, ...], mapped: StabilityMap | None, way: Along | None,
    late: LateSwitches | None,
) -> dict[str, Any]:  # fmt: skip
    data = {**found.data(), "changes": changes(found, others, late)}
    data["late_switches"] = None if late is None else late.data()
    if others:
        data["alternatives"] = [
            {
                "coupling": one.label,
                "present": one.present,
                "verdict": one.result.verdict,
                "local": one.result.local,
                "spectral_radius": None if one.result.no_matrix else one.result.spectral_radius,
                "largest_stable_step": one.result.largest_stable_step,
                "open": one.result.open,
            }
            for one in others
        ]
    if way is not None:
        data["along"] = way.data()
    if mapped is not None:
        data["map"] = mapped.data()
    return data


def _rows(given: str) -> tuple[str, list[float]]:
    """The parameter of a map, and its values."""
    name, _, text = given.partition("=")
    try:
        low, high, count = _range(text)
    except argparse.ArgumentTypeError as error:
        raise InvalidInput(f"--map {given}: {error}") from None
    return name.strip(), np.linspace(low, high, count or POINTS).tolist()


def _mapped(
    made: Any, name: str, values: list[float], options: argparse.Namespace, found: Stability
) -> StabilityMap:
    first, last, steps = options.scan or (found.step / 10.0, found.step * 10.0, None)
    return stability_map(
        made,
        name,
        values,
        np.geomspace(first, last, steps or POINTS).tolist(),
        at=options.at,
        ideal=options.ideal,
    )


def _range(text: str) -> tuple[float, float, int | None]:
    """``low:high`` or ``low:high:points``."""
    parts = text.split(":")
    try:
        low, high = float(parts[0]), float(parts[1])
        count = int(parts[2]) if len(parts) > 2 else None
        if len(parts) > 3 or not low < high or (count is not None and count < 2):
            raise ValueError
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range. Write LOW:HIGH, such as 0.01:1, or LOW:HIGH:POINTS"
        ) from None
    return low, high, count
