"""`--certify`: a run that is proven to be unstable does not begin; one that is not proven stable says so."""

from __future__ import annotations

from math import log

from upbeat.cli.console import complain
from upbeat.core.errors import InvalidInput, RunError
from upbeat.engine.experiment import Experiment
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pattern import Pattern
from upbeat.report.stability import changes, sentence
from upbeat.stability.linear.asked import NoSize
from upbeat.stability.linear.induced import At, named
from upbeat.stability.switched.tables import as_table, table_holds, tabled
from upbeat.stability.verdicts.judge import Stability, stability_of
from upbeat.units.fmi.model import Fmu

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

    Nobody can prove that an FMU is linear, so that no verdict on one holds everywhere. But a motion that
    grows so fast is not waved through.
    """
    if not any(isinstance(model, Fmu) for model in made.closed.units.values()):
        return False
    steps = (made.span.stop - made.span.start) / found.step
    surely = found.mode.radius - found.mode.uncertainty
    return surely > 1.0 and steps * log(surely) > log(GROWN)


def _certify_table(made: Experiment, given: Monitored | Pattern, at: At, quiet: bool) -> None:
    """The sequences that a monitor lets through: proven anew, because anybody may have written its table.

    A pattern is a table with one way through it.
    """
    pace = as_table(given)
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
