"""What is to be judged: the experiment, and the size of its steps."""

from __future__ import annotations

from upbeat.core.errors import InvalidInput
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.settings import Settings
from upbeat.master.paces.pace import Fixed
from upbeat.scenario.scenario import Scenario


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
    if isinstance(made.master.pace, Fixed):
        return made.master.pace.step
    raise NoSize(
        f"the pace {type(made.master.pace).__name__} chooses steps as it goes, and a verdict is about steps "
        "of one size. Say which: step=0.01, or --step 0.01. Steps of several sizes are judged together by "
        "up.certified(…), or --steps 0.01,0.02."
    )
