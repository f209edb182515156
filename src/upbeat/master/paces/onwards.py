"""Paces in a nested scenario, which is not told how long the run is."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from upbeat.core.errors import MasterError
from upbeat.master.paces.error_control import ErrorControl
from upbeat.master.paces.pace import Pace
from upbeat.master.paces.wrapping import Wrapping


def onwards(pace: Pace) -> Pace:
    """The pace as it is there. Raises `MasterError` if it must know how long the run is."""
    if isinstance(pace, Wrapping):
        return pace.around(onwards(pace.pace))
    if not isinstance(pace, ErrorControl):
        return pace
    if pace.method == "richardson" and pace.per == "run":
        raise MasterError(
            "a nested scenario is not told how long the run is, over which this ErrorControl shares its "
            'tolerance. Give every step the same: ErrorControl(…, per="step") (in a file: per = "step").'
        )
    return pace if pace.longest is not None else replace(pace, longest=inf)
