"""Why a step ends where it does: a kind, what it is about and numbers; and here, only, the words for that."""

from __future__ import annotations

from typing import Any, NamedTuple

from upbeat.core.plain import shown

FIXED = "fixed step"
FAR = "as far as possible"
USUAL = "usual step"
FIRST = "first step"
AFTER = "after an event"
STOP = "the stop time"
HALF = "half of the rest"
LONGEST = "the longest step"
CONTROLLED = "error control"
KNOWN = "known event"
LEFT = "what is left, which no proof covers"
STOOD = "after a step that should have been shorter, where no shorter one is proven"
PATTERN = "as the pattern says"

EXPECTED = "expected"
OVER = "over"
BACK = "back"
BETWEEN = "between"
ENDLESS = "endless"
STOPPED = "stopped"
ERROR = "error"
BEFORE = "error before"
STUCK = "stuck"
ROUNDED = "rounded"
REPLACED = "replaced"

OF_EVENTS = frozenset({EXPECTED, OVER, BACK, BETWEEN, ENDLESS})
"""The kinds that are about an event."""
LANDED = frozenset({EXPECTED, OVER, BACK, BETWEEN, STOPPED})
"""The kinds of steps that end at an event which depends on states."""

SENTENCES = {
    EXPECTED: "event '{about}' expected at {at:.9g}",
    OVER: "event '{about}' over at {at:.9g}",
    BACK: "back to event '{about}' at {at:.9g}",
    BETWEEN: "between two of event '{about}' at {at:.9g}",
    ENDLESS: (
        "events come one right after the other at t = {at:.9g}, and event '{about}' is the next. A chain "
        "that does not end, such as a ball that bounces lower and lower, needs an end of its own: let it "
        "come to rest once it is slow enough, and put it where it lies. If they really come that often, take "
        "a smaller step"
    ),
    STOPPED: "{about} stopped",
    ERROR: "error {0:.2g} × tolerance at {about}",
    BEFORE: "error {0:.2g} × tolerance at {about} in the step before",
    STUCK: (
        "the step from t = {at:.9g} has an error {0:.2g} × tolerance at {about}, and cannot be shorter than "
        "{1:.3g}. A jump that is no event, or a tolerance below what the units' own solvers give, looks like "
        "this: raise the tolerance or 'shortest', or accept such steps with correct=\"next\"."
    ),
    ROUNDED: "{about}, the next of the proven steps",
    REPLACED: "{about}, which is not proven here",
}
"""Of the kinds that have something to say; any other kind is a sentence itself."""

_LABELS = {
    EXPECTED: "{about} expected",
    OVER: "{about} over",
    BACK: "back to {about}",
    BETWEEN: "between two of {about}",
    ERROR: "error at {about}",
    BEFORE: "error at {about} before",
}


class Reason(NamedTuple):
    """Why a step ends where it does. `str` gives the sentence.

    `about` names an event, a unit or a port, `at` is a time, and `of` are other numbers. A pace of one's own
    may have kinds of its own: what is not one of those above is taken as it is written, and so is a kind
    without anything else.
    """

    kind: str
    about: str = ""
    at: float | None = None
    of: tuple[float, ...] = ()

    def __str__(self) -> str:
        return self._in(SENTENCES)

    @property
    def label(self) -> str:
        """A few words without the numbers, for steps of one kind that are about the same."""
        return self._in(_LABELS if self.kind in _LABELS else SENTENCES)

    @property
    def event(self) -> str:
        """The event that it is about; empty if there is none."""
        return self.about if self.kind in OF_EVENTS else ""

    def _in(self, words: dict[str, str]) -> str:
        known = None if self.plain else words.get(self.kind)  # a text may happen to be the name of a kind
        return self.kind if known is None else known.format(*self.of, about=self.about, at=self.at)

    @property
    def plain(self) -> bool:
        """Whether the kind is all there is to say."""
        return self[1:] == ("", None, ())

    def to_data(self) -> Any:
        """Plain data for a file: the kind alone, if that is all."""
        return self.kind if self.plain else [self.kind, self.about, self.at, *self.of]

    @classmethod
    def from_data(cls, data: Any) -> Reason:
        """What `to_data` gave; `ValueError` if it is something else."""
        if isinstance(data, str):
            return cls(data)
        try:
            kind, about, at, *of = data
            reason = cls(str(kind), str(about), None if at is None else float(at), tuple(map(float, of)))
            str(reason), reason.label
        except (TypeError, ValueError, IndexError, OverflowError):
            raise ValueError(f"{shown(data)} is not the reason of a step") from None
        return reason


Why = Reason | str
"""A kind without anything else may be given as it is."""


def as_reason(given: Why) -> Reason:
    """With nothing but a kind, if it is a text."""
    return given if isinstance(given, Reason) else Reason(given)
