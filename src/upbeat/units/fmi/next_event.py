"""What is made of the time at which an FMU says its next event will be."""

from __future__ import annotations

from math import inf

from upbeat.units.fmi.instance import Instance


class NextEvents:
    """Some FMUs leave the time of an event that is over. Taken at its word it would be due for ever."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._told = False

    def after(self, now: float, named: float) -> float:
        """The time that the FMU named in an update at `now`; infinity, with one warning, if it is past."""
        if named >= now:
            return named
        if not self._told:
            self._told = True
            self._instance.note(
                f"its next event would be at t = {named:.9g}, which is past at t = {now:.9g}: taken as none"
            )
        return inf
