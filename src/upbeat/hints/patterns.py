"""Scopes and patterns of hints: when a statement is to hold, and how, as formulas of signal temporal logic.

The catalogue is that of property specification patterns (Dwyer and others; Autili and others, 2015). Each
pattern is a phrase with places for statements, numbers and times, and what it means inside a scope. What was
to come within some time, and for which a run had no time left, has not failed to come.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from upbeat.core.errors import suggest
from upbeat.core.measure import MeasureError, conversion
from upbeat.core.records import dataclass


class Misread(Exception):
    """A part of a hint that cannot be read: what, what to do about it, and where in its text."""

    def __init__(self, what: str, hint: str = "", at: int = 0) -> None:
        super().__init__(what)
        self.what, self.hint, self.at = what, hint, at


# ----------------------------------------------------------------------------------------------------
# Scopes.

_SCOPES: Final = {
    "globally": "Globally",
    "before {q}": "Before {q}",
    "after {q}": "After {q}",
    "between {q} and {r}": "Between {q} and {r}",
    "after {q} until {r}": "After {q} until {r}",
}


@dataclass(frozen=True)
class Scope:
    """When a hint is about: always, or before, after or between the times at which statements hold.

    What begins a scope belongs to it, what ends it does not. One that ends with a statement (`Before`,
    `Between`) is none where that never holds.
    """

    phrase: str = "globally"
    q: str = ""
    r: str = ""

    def __str__(self) -> str:
        return _SCOPES[self.phrase].format(q=self.q, r=self.r)

    @property
    def statements(self) -> tuple[str, ...]:
        """The names of the statements that begin and end it."""
        return tuple(name for name in (self.q, self.r) if name)

    def within(self, texts: Mapping[str, str]) -> str:
        """What holds as long as it lasts, in the language of properties; empty: always."""
        q, r = texts.get(self.q, ""), texts.get(self.r, "")
        since = f"((not ({r})) since (({q}) and not ({r})))"
        return {
            "globally": "",
            "before {q}": f"((not once({q})) and eventually({q}))",
            "after {q}": f"once({q})",
            "between {q} and {r}": f"({since} and eventually({r}))",
            "after {q} until {r}": since,
        }[self.phrase]

    @property
    def ends(self) -> bool:
        """Whether something ends it before the run does."""
        return self.phrase not in ("globally", "after {q}")


def read_scope(text: str) -> Scope:
    """The scope that a phrase describes; `Misread` if there is none."""
    for phrase in _SCOPES:
        if found := _phrase(phrase).fullmatch(text.strip()):
            return Scope(phrase, **found.groupdict())
    known = "; ".join(shown.format(q="EVENT", r="OTHER") for shown in _SCOPES.values())
    raise Misread(f"there is no scope {_short(text)!r}", f"The scopes are: {known}.")


# ----------------------------------------------------------------------------------------------------
# Patterns.


class _Inside(NamedTuple):
    """How a formula is confined to a scope: `within` holds as long as that lasts; empty: always."""

    within: str
    ends: bool
    span: float = math.inf
    """How long a run is: for what begins too late to be seen there was no time."""

    def guarded(self, text: str) -> str:
        return f"{self.within} implies ({text})" if self.within else text

    def both(self, text: str) -> str:
        return f"({self.within} and ({text}))" if self.within else f"({text})"

    def ahead(self, text: str, seconds: float | None = None) -> str:
        """Now or later, before the scope ends, and within some seconds."""
        window = "" if seconds is None else f"[0, {seconds!r}]"
        if self.within:
            return f"({self.within} until{window} {self.both(text)})"
        return f"eventually{window}({text})"

    def back(self, text: str) -> str:
        """Now or earlier, since the scope has begun."""
        return f"({self.within} since {self.both(text)})" if self.within else f"once({text})"


def _always(x: _Inside, text: str, seconds: float = 0.0) -> str:
    """At all times; where it takes some seconds to see, at those after which there are as many."""
    known = 0.0 < seconds <= x.span < math.inf
    window = f"[0, {x.span - seconds!r}]" if known else ""
    return f"always{window}({x.guarded(text)})"


def _existence(x: _Inside, p: str) -> str:
    return _always(x, f"{x.back(p)} or {x.ahead(p)}") if x.within else f"eventually({p})"


def _bounded(x: _Inside, p: str, n: int) -> str:
    if not x.within:
        return f"always(count({p}) <= {n})"
    more = x.ahead(p)
    for _ in range(n):
        more = x.ahead(f"({p}) and ({x.both(p)} until {x.both(f'not ({p}) and {more}')})")
    return _always(x, f"not {more}")


def _at_least(x: _Inside, p: str, seconds: float) -> str:
    done = f"({p}) and duration({p}) >= {seconds!r}"
    if x.ends:
        done = f"({done}) or not {x.within}"
    return _always(x, f"({p}) implies ((({p}) until ({done})) or always({p}))")  # or the run ends first


def _response(x: _Inside, p: str, s: str, seconds: float | None = None) -> str:
    if seconds is None:
        return _always(x, f"({p}) implies {x.ahead(s)}")
    return _always(x, f"({p}) implies {x.ahead(s, seconds)}", seconds)


def _recurrence(x: _Inside, p: str, seconds: float) -> str:
    over = f" or not {x.within}" if x.within else ""
    return _always(x, f"eventually[0, {seconds!r}](({p}){over})", seconds)


class _Spec(NamedTuple):
    phrase: str
    formula: Callable[..., str]


CATALOGUE: Final[dict[str, _Spec]] = {
    "Universality": _Spec("always the case that {p} holds", lambda x, p: _always(x, text=p)),
    "Absence": _Spec("never the case that {p} holds", lambda x, p: _always(x, f"not ({p})")),
    "Existence": _Spec("{p} holds eventually", _existence),
    "BoundedExistence": _Spec("{p} holds at most {n} times", _bounded),
    "MinDuration": _Spec("once {p} holds it will hold for at least {seconds}", _at_least),
    "MaxDuration": _Spec(
        "once {p} holds it will hold for less than {seconds}",
        lambda x, p, seconds: _always(x, f"({p}) implies duration({x.both(p)}) < {seconds!r}"),
    ),
    "Recurrence": _Spec("{p} holds repeatedly every {seconds}", _recurrence),
    "SteadyState": _Spec(
        "{p} holds in the long run", lambda x, p: f"eventually(always({x.guarded(p)}))"
    ),
    "Precedence": _Spec(
        "if {p} holds then {s} held before", lambda x, p, s: _always(x, f"({p}) implies {x.back(s)}")
    ),
    "PrecedenceChain": _Spec(
        "if {p} holds then {s} and afterwards {t} held before",
        lambda x, p, s, t: _always(x, f"({p}) implies {x.back(f'({t}) and {x.back(s)}')}"),
    ),
    "Response": _Spec("if {p} holds then in response {s} holds[ within {seconds}]", _response),
    "ResponseChain": _Spec(
        "if {p} holds then in response {s} holds and afterwards {t} holds",
        lambda x, p, s, t: _always(x, f"({p}) implies {x.ahead(f'({s}) and {x.ahead(t)}')}"),
    ),
    "ResponseInvariance": _Spec(
        "if {p} holds then in response {s} holds continually",
        lambda x, p, s: _always(x, f"{x.back(p)} implies ({s})"),
    ),
    "Until": _Spec(
        "{p} holds without interruption until {s} holds",
        lambda x, p, s: f"({_always(x, f'({p}) or {x.back(s)}')}) and ({_existence(x, s)})",
    ),
}  # fmt: skip
"""What each pattern says, and what it means."""

ALIASES: Final = {"MinimumDuration": "MinDuration", "MaximumDuration": "MaxDuration"}
MAX_TIMES: Final = 20
"""So often may something hold within a scope, where that is bounded."""


@dataclass(frozen=True)
class Pattern:
    """How statements hold: a pattern of the catalogue, and what stands in its places."""

    name: str = "Universality"
    places: Mapping[str, Any] = field(default_factory=dict)
    """p, s, t: names of statements; n: how often; seconds: how long."""

    def __str__(self) -> str:
        phrase = CATALOGUE[self.name].phrase
        optional = re.search(r"\[(.*)\]", phrase)
        if optional:
            kept = optional[1] if "seconds" in self.places else ""
            phrase = phrase.replace(optional[0], kept)
        shown = {k: f"{v!r} s" if k == "seconds" else v for k, v in self.places.items()}
        return f"{self.name}: {phrase.format(**shown)}"

    @property
    def statements(self) -> tuple[str, ...]:
        """The names of the statements that it is about."""
        return tuple(str(self.places[key]) for key in ("p", "s", "t") if key in self.places)

    def formula(self, scope: Scope, texts: Mapping[str, str], span: float = math.inf) -> str:
        """What it means in a scope, in the language of properties, for runs of `span` seconds; `texts` are
        the statements."""
        given = {k: texts[v] if k in ("p", "s", "t") else v for k, v in self.places.items()}
        return CATALOGUE[self.name].formula(_Inside(scope.within(texts), scope.ends, span), **given)


def read_pattern(text: str, only: str = "") -> Pattern:
    """The pattern that a phrase describes; `only` is the statement that one without any is about."""
    name, _, phrase = text.partition(":")
    at = len(text) - len(text.lstrip())
    name = ALIASES.get(name.strip(), name.strip())
    if name not in CATALOGUE:
        raise Misread(f"there is no pattern {_short(name)!r}", suggest(name, CATALOGUE, "patterns"), at)
    wanted = CATALOGUE[name].phrase
    found = _phrase(wanted).fullmatch(phrase.strip())
    if found is None:
        if not phrase.strip() and only and _PLACE.findall(wanted) == ["p"]:
            return Pattern(name, {"p": only})
        what = "nothing stands" if not phrase.strip() else f"{_short(phrase)!r} stands"
        raise Misread(f"{what} behind {name}", f"Write {_phrase_of(name)}.", at + len(text.partition(":")[0]))
    places: dict[str, Any] = {key: value for key, value in found.groupdict().items() if value is not None}
    if "n" in places:
        places["n"] = int(places["n"])
        if places["n"] > MAX_TIMES:
            raise Misread(f"{places['n']} times are more than can be followed", f"At most {MAX_TIMES}.", at)
    if "seconds" in places:
        places["seconds"] = _seconds(places["seconds"], at)
    return Pattern(name, places)


def _phrase_of(name: str) -> str:
    shown = {"p": "P", "s": "S", "t": "T", "n": "3", "seconds": "2 s"}
    return f"{name}: {re.sub('[][]', '', CATALOGUE[name].phrase).format(**shown)}"


def _seconds(text: str, at: int) -> float:
    number, _, unit = text.removeprefix("val").strip().partition(" ")
    try:
        seconds = float(number) * conversion(unit.strip() or "s", "s").scale
    except (MeasureError, ValueError) as error:
        raise Misread(f"{text!r} is no time: {error}", "Write a time such as 2 s, or 5 ms.", at) from None
    if not seconds > 0:
        raise Misread(f"a time of {text} is not above zero", "", at)
    return seconds


_NAME: Final = r"[A-Za-z_]\w*"
_PLACE: Final = re.compile(r"\{(\w+)\}")
_PLACES: Final = {
    "n": r"\d{1,6}",
    "seconds": r"(?:val\s+)?[0-9.]+(?:[eE][+-]?\d+)?(?:\s+[A-Za-z]+)?",
}


def _phrase(phrase: str) -> re.Pattern[str]:
    """A phrase as a pattern of text: words may be joined by hyphens, and ``holds`` may be left out."""
    parts = []
    for word in re.split(r"(\[.*\])| ", phrase):
        if not word:
            continue
        if word.startswith("["):
            parts.append(f"(?:{_joined(word[1:-1])})?")
        else:
            parts.append(_joined(word))
    return re.compile("".join(parts).removeprefix(_GAP), re.IGNORECASE)


_GAP: Final = r"(?:\s+|\s*-\s*)"


def _joined(words: str) -> str:
    made = ""
    for word in words.split():
        place = _PLACE.fullmatch(word)
        own = f"(?P<{place[1]}>{_PLACES.get(place[1], _NAME)})" if place else re.escape(word)
        made += f"(?:{_GAP}holds)?" if word == "holds" else _GAP + own
    return made


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}…"
