"""What a unit in another process said went wrong: already in full words."""

from __future__ import annotations

from upbeat.core.errors import UpbeatError


class Told(UpbeatError):
    """Carries the words only: the exception itself stayed in the process where it was raised."""


class Ended(Told):
    """What it said was no failure: it asks to end the run (`EndRequest`)."""
