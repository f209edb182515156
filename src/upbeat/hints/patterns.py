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


WHOLE: Final = (0.0, math.inf)
"""No limit in time: from, to, in seconds."""


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

    def ahead(self, text: str, when: _When = WHOLE, avoid: str = "") -> str:
        """Now or later, before the scope ends, within some seconds, and before something else holds."""
        while_ = self.both(f"not ({avoid})") if avoid else self.within
        if while_:
            return f"({while_} until{_window(when)} {self.both(text)})"
        return f"eventually{_window(when)}({text})"

    def back(self, text: str, when: _When = WHOLE) -> str:
        """Now or earlier, since the scope has begun, and within some seconds."""
        if self.within:
            return f"({self.within} since{_window(when)} {self.both(text)})"
        return f"once{_window(when)}({text})"

    def limited(self, when: _When) -> _Inside:
        """The part of it that lies so many seconds after its begin."""
        if when == WHOLE:
            return self
        passed = f"duration({self.within or 'true'})"
        limits = [self.within, *([f"{passed} >= {when[0]!r}"] if when[0] > 0.0 else [])]
        limits += [f"{passed} <= {when[1]!r}"] if when[1] < math.inf else []
        return self._replace(within=f"({' and '.join(filter(None, limits))})", ends=True)


_When = tuple[float, float]


def _window(when: _When) -> str:
    return "" if when == WHOLE else f"[{when[0]!r}, {when[1]!r}]"


def _looks(when: _When) -> float:
    """How far ahead one has to look."""
    return when[1] if when[1] < math.inf else when[0]


def _always(x: _Inside, text: str, seconds: float = 0.0) -> str:
    """At all times; where it takes some seconds to see, at those after which there are as many."""
    known = 0.0 < seconds <= x.span < math.inf
    window = f"[0, {x.span - seconds!r}]" if known else ""
    return f"always{window}({x.guarded(text)})"


def _universal(x: _Inside, p: str, when: _When = WHOLE) -> str:
    if x.within or when == WHOLE:
        return _always(x.limited(when), p)
    return f"always{_window((when[0], min(when[1], max(x.span, when[0]))))}({p})"


def _existence(x: _Inside, p: str, when: _When = WHOLE) -> str:
    if not x.within:
        return f"eventually{_window(when)}({p})"
    y = x.limited(when)
    cut = f" or always({y.both(f'duration({x.within}) < {when[1]!r}')})" if when[1] < math.inf else ""
    return _always(y, f"{y.back(p)} or {y.ahead(p)}{cut}")


def _bounded(x: _Inside, p: str, n: int, when: _When = WHOLE) -> str:
    x = x.limited(when)
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


def _transient(x: _Inside, p: str, seconds: float) -> str:
    """At the first row that is so many seconds after the scope has begun."""
    passed = f"duration({x.within or 'true'})"
    early = f"{passed} < {seconds!r}"
    then = x.both(f"{passed} >= {seconds!r} and ({p})")
    over = f" or not {x.within}" if x.within else ""
    began = x.both(f"{passed} <= 0")
    return f"always({began} implies (({early} until ({then}{over})) or always({early})))"


def _response(x: _Inside, p: str, s: str, when: _When = WHOLE, z: str = "") -> str:
    return _always(x, f"({p}) implies {x.ahead(s, when, z)}", _looks(when))


def _until(x: _Inside, p: str, s: str, when: _When = WHOLE) -> str:
    done = x.back(x.limited(when).both(s))
    return f"({_always(x, f'({p}) or {done}')}) and ({_existence(x, s, when)})"


def _recurrence(x: _Inside, p: str, seconds: float) -> str:
    over = f" or not {x.within}" if x.within else ""
    return _always(x, f"eventually[0, {seconds!r}](({p}){over})", seconds)


class _Spec(NamedTuple):
    phrase: str
    formula: Callable[..., str]


CATALOGUE: Final[dict[str, _Spec]] = {
    "Universality": _Spec("always the case that {p} holds[ {when}]", _universal),
    "Absence": _Spec(
        "never the case that {p} holds[ {when}]", lambda x, p, when=WHOLE: _universal(x, f"not ({p})", when)
    ),
    "Existence": _Spec("{p} holds eventually[ {when}]", _existence),
    "BoundedExistence": _Spec("{p} holds at most {n} times[ {when}]", _bounded),
    "TransientState": _Spec("{p} holds after {seconds}", _transient),
    "SteadyState": _Spec(
        "{p} holds in the long run", lambda x, p: f"eventually(always({x.guarded(p)}))"
    ),
    "MinDuration": _Spec("once {p} holds it will hold for at least {seconds}", _at_least),
    "MaxDuration": _Spec(
        "once {p} holds it will hold for less than {seconds}",
        lambda x, p, seconds: _always(x, f"({p}) implies duration({x.both(p)}) < {seconds!r}"),
    ),
    "Recurrence": _Spec("{p} holds repeatedly every {seconds}", _recurrence),
    "Precedence": _Spec(
        "if {p} holds then {s} held before[ {when}]",
        lambda x, p, s, when=WHOLE: _always(x, f"({p}) implies {x.back(s, when)}"),
    ),
    "PrecedenceChain": _Spec(
        "if {p} holds then {s} and afterwards {t} held before[ {when}]",
        lambda x, p, s, t, when=WHOLE: _always(
            x, f"({p}) implies {x.back(f'({t}) and {x.back(s)}', when)}"
        ),
    ),
    "PrecedenceChain1N": _Spec(
        "if {p} holds and afterwards {s} holds then {t} held before[ {when}]",
        lambda x, p, s, t, when=WHOLE: _always(x, f"(({p}) and {x.ahead(s)}) implies {x.back(t, when)}"),
    ),
    "Response": _Spec(
        "if {p} holds then in response {s} holds[ {when}][ without {z} in between]", _response
    ),
    "ResponseChain": _Spec(
        "if {p} holds then in response {s} holds[ {when}] and afterwards {t} holds[ without {z} in between]",
        lambda x, p, s, t, when=WHOLE, z="": _response(x, p, f"({s}) and {x.ahead(t, avoid=z)}", when),
    ),
    "ResponseChainN1": _Spec(
        "if {p} holds and afterwards {s} holds then in response {t} holds[ {when}]",
        lambda x, p, s, t, when=WHOLE: _response(x, f"({s}) and {x.back(p)}", t, when),
    ),
    "ResponseInvariance": _Spec(
        "if {p} holds then in response {s} holds continually[ {when}]",
        lambda x, p, s, when=WHOLE: _always(x, f"{x.back(p, when)} implies ({s})"),
    ),
    "Until": _Spec("{p} holds without interruption until {s} holds[ {when}]", _until),
}  # fmt: skip
"""What each pattern says, and what it means."""

ALIASES: Final = {
    "MinimumDuration": "MinDuration",
    "MaximumDuration": "MaxDuration",
    "PrecedenceChainN1": "PrecedenceChain",
    "ResponseChain1N": "ResponseChain",
}
MAX_TIMES: Final = 15
"""So often may something hold within a part of a run, where that is bounded: each time is a formula within
that of the time before."""


@dataclass(frozen=True)
class Pattern:
    """How statements hold: a pattern of the catalogue, and what stands in its places."""

    name: str = "Universality"
    places: Mapping[str, Any] = field(default_factory=dict)
    """p, s, t, z: names of statements; n: how often; seconds: how long; when: from and to."""

    def __str__(self) -> str:
        shown = {k: f"{v!r} s" if k == "seconds" else v for k, v in self.places.items()}
        if "when" in self.places:
            shown["when"] = _when_shown(self.places["when"])
        given = lambda part: part[1] if _PLACE.findall(part[1])[0] in shown else ""  # noqa: E731
        phrase = _OPTIONAL.sub(given, CATALOGUE[self.name].phrase)
        return f"{self.name}: {phrase.format(**shown)}"

    @property
    def statements(self) -> tuple[str, ...]:
        """The names of the statements that it is about."""
        return tuple(str(self.places[key]) for key in _STATEMENTS if key in self.places)

    def formula(self, scope: Scope, texts: Mapping[str, str], span: float = math.inf) -> str:
        """What it means in a scope, in the language of properties, for runs of `span` seconds; `texts` are
        the statements."""
        given = {k: texts[v] if k in _STATEMENTS else v for k, v in self.places.items()}
        return CATALOGUE[self.name].formula(_Inside(scope.within(texts), scope.ends, span), **given)


def occasion(pattern: Pattern, scope: Scope, texts: Mapping[str, str]) -> tuple[str, str]:
    """What has to happen, for a pattern in a scope to ask for anything: as a formula, and in words; empty, if
    it asks for something whatever happens."""
    within = scope.within(texts)
    first = pattern.places["p"] if CATALOGUE[pattern.name].phrase.startswith(("if", "once")) else ""
    told = [part for part in (within, f"({texts[first]})" if first else "") if part]
    if not told:
        return "", ""
    if not first:
        return f"eventually({within})", f"there is no time {_lower(str(scope))}"
    where = f" {_lower(str(scope))}" if within else ""
    return f"eventually({' and '.join(told)})", f"{first} never holds{where}"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def read_pattern(text: str, only: str = "") -> Pattern:
    """The pattern that a phrase describes; `only` is the statement that one without any is about."""
    name, _, phrase = text.partition(":")
    at = len(text) - len(text.lstrip())
    name = name.strip().replace("-", "")
    name = ALIASES.get(name, name)
    if name not in CATALOGUE:
        raise Misread(f"there is no pattern {_short(name)!r}", suggest(name, CATALOGUE, "patterns"), at)
    wanted = CATALOGUE[name].phrase
    found = _phrase(wanted).fullmatch(_plain(phrase))
    if found is None:
        if not phrase.strip() and only and _PLACE.findall(_OPTIONAL.sub("", wanted)) == ["p"]:
            return Pattern(name, {"p": only})
        what = "nothing stands" if not phrase.strip() else f"{_short(phrase)!r} stands"
        raise Misread(f"{what} behind {name}", f"Write {_phrase_of(name)}.", at + len(text.partition(":")[0]))
    places: dict[str, Any] = {key: value for key, value in found.groupdict().items() if value is not None}
    if "n" in places:
        places["n"] = int(places["n"])
    if "seconds" in places:
        places["seconds"] = _seconds(places["seconds"], at)
    if "when" in places:
        places["when"] = _when(places["when"], at)
    return Pattern(name, places)


def _phrase_of(name: str) -> str:
    shown = {"p": "P", "s": "S", "t": "T", "z": "Z", "n": "3", "seconds": "2 s", "when": "within 2 s"}
    return f"{name}: {CATALOGUE[name].phrase.format(**shown)}"


def _when(text: str, at: int) -> _When:
    """From when on, and until when: ``within 2 s``, ``after 2 s`` or ``between 1 s and 2 s``."""
    word, _, rest = re.sub(_GAP, " ", text, count=1).partition(" ")
    if word.lower() == "within":
        return 0.0, _seconds(rest, at)
    if word.lower() == "after":
        return _seconds(rest, at), math.inf
    first, last = (_seconds(part, at) for part in re.split(r"\s+and\s+", rest.strip(), flags=re.IGNORECASE))
    if not first <= last:
        raise Misread(f"{first:g} s is after {last:g} s", f"Write between {last:g} s and {first:g} s.", at)
    return first, last


def _when_shown(when: _When) -> str:
    if when[1] == math.inf:
        return f"after {when[0]!r} s"
    return f"between {when[0]!r} s and {when[1]!r} s" if when[0] else f"within {when[1]!r} s"


def _seconds(text: str, at: int) -> float:
    number, _, unit = text.removeprefix("val").strip().partition(" ")
    try:
        seconds = float(number) * conversion(unit.strip() or "s", "s").scale
    except (MeasureError, ValueError) as error:
        raise Misread(f"{text!r} is no time: {error}", "Write a time such as 2 s, or 5 ms.", at) from None
    if not seconds > 0:
        raise Misread(f"a time of {text} is not above zero", "", at)
    return seconds


_STATEMENTS: Final = ("p", "s", "t", "z")
_NAME: Final = r"[A-Za-z_]\w*"
_PLACE: Final = re.compile(r"\{(\w+)\}")
_OPTIONAL: Final = re.compile(r"\[(.*?)\]")
_GAP: Final = r"(?:\s+|\s*-\s*)"
_TIME: Final = r"(?:val\s+)?[0-9.]+(?:[eE][+-]?\d+)?(?:\s+[A-Za-z]+)?"
_PLACES: Final = {
    "n": r"\d{1,6}",
    "seconds": _TIME,
    "when": rf"(?:within|after){_GAP}{_TIME}|between{_GAP}{_TIME}\s+and\s+{_TIME}",
}
_SAID: Final = (
    (r",", " "),
    (r"^\s*it{0}is{0}(?=always|never)", ""),
    (r"\bit{0}remains{0}so\b", "it will hold"),
    (r"\bthen{0}it{0}must{0}have{0}been{0}the{0}case{0}that\b", "then"),
    (r"\b(?:has|have){0}occurred{0}before\b(?:{0}\w+{0}holds)?", "held before"),
    (r"\b(?:has{0}occurred|have{0}occurred|eventually{0}holds|becomes{0}satisfied)\b", "holds"),
    (r"(?<=\d){0}time\b", " times"),
)
"""What people say, too, and what it means: the words of the catalogue."""


def _plain(phrase: str) -> str:
    for said, meant in _SAID:
        phrase = re.sub(said.replace("{0}", _GAP), meant, phrase, flags=re.IGNORECASE)
    return phrase.strip()


def _phrase(phrase: str) -> re.Pattern[str]:
    """A phrase as a pattern of text: words may be joined by hyphens, and ``holds`` may be left out."""
    parts = []
    for k, part in enumerate(_OPTIONAL.split(phrase)):
        parts.append(f"(?:{_joined(part)})?" if k % 2 else _joined(part))
    return re.compile("".join(parts).removeprefix(_GAP), re.IGNORECASE)


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
