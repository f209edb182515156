"""The ways to meet events between units, as files, Python and the command line name them."""

from __future__ import annotations

from typing import Literal, get_args

from upbeat.master import checks

Events = Literal["auto", "look_ahead", "revised", "interruptible", "off"]


def checked(events: object) -> None:
    """Refuse what is no way to meet events."""
    if events is not None:
        checks.choice(events, get_args(Events), "events of a master")
