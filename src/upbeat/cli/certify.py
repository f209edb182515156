"""`--certify`: a run that is proven to be unstable does not begin; one that is not proven stable says so."""

from __future__ import annotations

from upbeat.cli.console import complain
from upbeat.core.errors import InvalidInput, RunError
from upbeat.engine.experiment import Experiment
from upbeat.report.stability import changes, sentence
from upbeat.stability.judge import stability_of


def certify(made: Experiment, *, quiet: bool = False) -> None:
    """Refuse what is proven to be unstable everywhere; warn where nothing is proven."""
    try:
        found = stability_of(made, scan=False)
    except (InvalidInput, RunError) as error:
        complain(f"upbeat: warning: nothing is proven about the stability of this run: {error}")
        return
    if found.verdict == "unstable" and found.linear:
        advice = changes(stability_of(made))
        more = f" What to change: {'; '.join(advice)}." if advice else ""
        raise InvalidInput(f"{sentence(found)}{more} Leave out --certify to run it all the same.")
    if found.verdict != "stable" or found.local:
        complain(f"upbeat: warning: not proven to be stable. {sentence(found)}")
    elif not quiet:
        complain(f"upbeat: certified. {sentence(found)}")
