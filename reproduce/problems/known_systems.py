"""References for the examples in examples/systems: SciPy at 1e-12, from event to event, or closed forms.

Nothing of Upbeat is used: equations and events are written here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi, sin, sqrt
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

Numbers = np.ndarray
State = Sequence[float]


class Known(NamedTuple):
    """Events in their order, and the values of signals at any times (after what happens there)."""

    how: str
    events: list[tuple[str, float]]
    at: Callable[[Numbers], dict[str, Numbers]]


class Switch(NamedTuple):
    """An event of a mode: it happens where `when` falls through zero, and leads to a mode and a state."""

    name: str
    when: Callable[[float, State], float]
    to: str
    then: Callable[[float, State], list[float]]


class Mode(NamedTuple):
    """Rates of the states, and what ends it."""

    rates: Callable[[float, State], list[float]]
    switches: tuple[Switch, ...] = ()


def same(t: float, x: State) -> list[float]:
    return list(x)


def hybrid(
    modes: dict[str, Mode], mode: str, start: State, until: float, signals: Sequence[str], breaks: State = ()
) -> Known:
    """Goes from event to event; `breaks` are times at which rates jump."""
    t, x = 0.0, list(start)
    events: list[tuple[str, float]] = []
    parts: list[tuple[float, Callable[[Numbers], Numbers]]] = []
    while t < until:
        here = modes[mode]
        stop = min([b for b in breaks if b > t] + [until])
        functions = []
        for switch in here.switches:

            def crossing(t: float, x: State, when: Callable[..., float] = switch.when) -> float:
                return when(t, x)

            crossing.terminal, crossing.direction = True, -1.0  # type: ignore[attr-defined]
            functions.append(crossing)
        found = solve_ivp(
            here.rates, (t, stop), x, method="DOP853", rtol=1e-12, atol=1e-13, dense_output=True,
            events=functions or None, max_step=(stop - t) / 20,
        )  # fmt: skip
        assert found.status >= 0, found.message
        parts.append((t, found.sol))
        t, x = float(found.t[-1]), [float(value) for value in found.y[:, -1]]
        if found.status == 1:
            (which,) = [k for k, times in enumerate(found.t_events) if len(times)]
            switch = here.switches[which]
            events.append((switch.name, t))
            mode, x = switch.to, switch.then(t, x)
        else:  # a rate has jumped: what that has made true happens here
            for switch in here.switches if t < until else ():
                if switch.when(t, x) <= 0 < switch.when(np.nextafter(t, 0), x):
                    events.append((switch.name, t))
                    mode, x = switch.to, switch.then(t, x)
    starts = [begin for begin, _ in parts]

    def at(times: Numbers) -> dict[str, Numbers]:
        rows = np.empty((len(times), len(signals)))
        places = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, None)
        for place in np.unique(places):
            mine = places == place
            rows[mine] = parts[place][1](times[mine]).T[:, : len(signals)]
        return dict(zip(signals, rows.T, strict=True))

    return Known("SciPy, DOP853 at 1e-12, from event to event", events, at)


# ----------------------------------------------------------------------------------------------------


def braking(until: float) -> Known:
    """Parabolas between samples."""
    lead, x, v, held, brakes = 60.0, 0.0, 30.0, 0.0, False
    events: list[tuple[str, float]] = []
    parts: list[tuple[float, float, float, float]] = []
    k = 0
    while 0.1 * k < until:
        t, end = 0.1 * k, 0.1 * (k + 1)
        held = (v - 15) ** 2 / (2 * (lead + 15 * t - x - 5))
        near = t + (lead + 15 * t - x - 40) / (v - 15)  # where the gap is 40, if nobody brakes
        if not brakes and t <= near < end:
            parts.append((t, x, v, 0.0))
            x, t, brakes = x + v * (near - t), near, True
            events.append(("near", near))
        a = held if brakes else 0.0
        parts.append((t, x, v, a))
        x, v = x + v * (end - t) - a * (end - t) ** 2 / 2, v - a * (end - t)
        k += 1
    table = np.array(parts)

    def at(times: Numbers) -> dict[str, Numbers]:
        t, x, v, a = table[np.searchsorted(table[:, 0], times, side="right") - 1].T
        return {"car.x": x + v * (times - t) - a * (times - t) ** 2 / 2, "car.v": v - a * (times - t)}

    return Known("closed form: parabolas between samples", events, at)


def stick_slip(until: float) -> Known:
    """Straight lines and parts of a harmonic oscillation around 0.25, of frequency √10."""
    w, x, t = sqrt(10.0), 0.0, 0.0
    events: list[tuple[str, float]] = []
    parts: list[tuple[float, float, bool]] = []
    while t < until:
        parts.append((t, x, True))
        t += (0.4 - x) / 0.1
        if t >= until:
            break
        events.append(("tear", t))
        parts.append((t, 0.4, False))
        # x = 0.25 + 0.15 cos ws + 0.1/w sin ws = 0.25 + r cos(ws - p): as fast as at the begin when it has
        # come to the mirrored place, 0.1
        p = np.arctan2(0.1 / w, 0.15)
        t += (pi + 2 * p) / w
        x = 0.1
        if t < until:
            events.append(("catch", t))
    table = np.array(parts)

    def at(times: Numbers) -> dict[str, Numbers]:
        begin, x, sticks = table[np.searchsorted(table[:, 0], times, side="right") - 1].T
        s = times - begin
        slipping = 0.25 + 0.15 * np.cos(w * s) + 0.1 / w * np.sin(w * s)
        return {"block.x": np.where(sticks > 0, x + 0.1 * s, slipping)}

    return Known("closed form: lines and parts of an oscillation", events, at)


def cradle(until: float) -> Known:
    """One ball after the other swings out for half a period."""
    w = sqrt(9.81)
    events: list[tuple[str, float]] = []
    count = 0
    while (t := (pi / 2 + pi * count) / w) < until:
        names = ["ab", "bc", "cd", "de"]
        events += [(name, t) for name in (names if count % 2 == 0 else names[::-1])]
        count += 1

    def at(times: Numbers) -> dict[str, Numbers]:
        swing = -0.1 * np.cos(w * times)
        zero = np.zeros(len(times))
        middle = {f"{ball}.x": zero for ball in "bcd"}
        return {"a.x": np.minimum(swing, 0.0), "e.x": np.maximum(swing, 0.0), **middle}

    return Known("closed form: half periods of a pendulum", events, at)


def shaker(until: float) -> Known:
    """Each block by itself, from hit to hit."""
    a, w, g = 0.012, 10 * pi, 9.81

    def block(name: str, h: float, v: float, r: float) -> Known:
        def gap(t: float, x: State) -> float:
            return x[0] - a * sin(w * t)

        def hit(t: float, x: State) -> list[float]:
            table = a * w * cos(w * t)
            return [a * sin(w * t), table - r * (x[1] - table)]

        flight = Mode(lambda t, x: [x[1], -g], (Switch(f"{name}_hit", gap, "flight", hit),))
        return hybrid({"flight": flight}, "flight", [h, v], until, [f"{name}.h"])

    soft, hard = block("soft", 0.022, -0.8, 0.5), block("hard", 0.034, -0.7, 0.6)
    events = sorted([*soft.events, *hard.events], key=lambda event: event[1])
    return Known(soft.how, events, lambda times: {**soft.at(times), **hard.at(times)})


def oven(until: float) -> Known:
    def mode(power: float, switch: Switch) -> Mode:
        def rates(t: float, x: State) -> list[float]:
            return [(power - 8 * (x[0] - x[1])) / 400, (8 * (x[0] - x[1]) - 2 * (x[1] - 20)) / 600]

        return Mode(rates, (switch,))

    modes = {
        "on": mode(2000.0, Switch("off", lambda t, x: 182 - x[1], "off", same)),
        "off": mode(0.0, Switch("on", lambda t, x: x[1] - 178, "on", same)),
    }
    known = hybrid(modes, "on", [20.0, 20.0], until, ["element.T", "air.T"])
    return known._replace(events=[("on", 0.0), *known.events])  # which it begins with


def two_tanks(until: float) -> Known:
    def mode(wanted: float, over: bool) -> Mode:
        def rates(t: float, x: State) -> list[float]:
            upper, valve, lower = x
            out = 0.06 * valve * sqrt(max(upper, 0.0))
            spill = 0.02 - out if over else 0.0
            return [
                (0.02 - out - spill) / 0.5, (wanted - valve) / 2, (out - 0.022 * sqrt(max(lower, 0.0))) / 1.5,
            ]  # fmt: skip

        place = "over" if over else "within"
        if wanted:
            valve = Switch("shut", lambda t, x: 0.6 - x[2], f"shut {place}", same)
        else:
            valve = Switch("open", lambda t, x: x[2] - 0.3, f"open {place}", same)
        word = "open" if wanted else "shut"
        if over:
            weir = Switch("under", lambda t, x: 0.02 - 0.06 * x[1] * sqrt(x[0]), f"{word} within", same)
        else:
            weir = Switch("over", lambda t, x: 1 - x[0], f"{word} over", same)
        return Mode(rates, (valve, weir))

    modes = {
        f"{word} {place}": mode(wanted, place == "over")
        for word, wanted in (("open", 1.0), ("shut", 0.0))
        for place in ("over", "within")
    }
    return hybrid(modes, "open within", [0.8, 1.0, 0.5], until, ["upper.h", "valve.s", "lower.h"])


def clutch(until: float) -> Known:
    """The state has both speeds; locked, they are the same."""

    def road(t: float) -> float:
        return 500.0 if 8 <= t < 9 else 0.0

    def slipping(t: float, x: State) -> list[float]:
        return [120.0 - 200.0, (200.0 - 0.3 * x[1] - road(t)) / 4]

    def locked(t: float, x: State) -> list[float]:
        rate = (120 - 0.3 * x[0] - road(t)) / 5
        return [rate, rate]

    def held(t: float, x: State) -> float:
        return 200 - (120 - (120 - 0.3 * x[0] - road(t)) / 5)

    lock = Switch("lock", lambda t, x: x[0] - x[1], "locked", lambda t, x: [(x[0] + 4 * x[1]) / 5] * 2)
    slip = Switch("slip", held, "slipping", same)
    modes = {"slipping": Mode(slipping, (lock,)), "locked": Mode(locked, (slip,))}
    known = hybrid(modes, "slipping", [150.0, 0.0], until, ["engine.w", "wheel.w"], breaks=(8.0, 9.0))

    def at(times: Numbers) -> dict[str, Numbers]:
        found = known.at(times)
        return {**found, "shaft.w": found["engine.w"]}

    return Known(known.how, known.events, at)


def trailer(until: float) -> Known:
    def apart(t: float, x: State) -> list[float]:
        return [x[1], 0.0, x[3], 0.0]

    def coupled(t: float, x: State) -> list[float]:
        force = 20000 * (x[0] - x[2] - 2) + 3000 * (x[1] - x[3])
        return [x[1], -force / 1000, x[3], force / 500]

    couple = Switch("couple", lambda t, x: x[0] - x[2] - 2, "coupled", same)
    modes = {"apart": Mode(apart, (couple,)), "coupled": Mode(coupled)}
    signals = ["car.x", "car.v", "trailer.x", "trailer.v"]
    return hybrid(modes, "apart", [10.0, -1.0, 0.0, 0.0], until, signals)


SYSTEMS: dict[str, Callable[[float], Known]] = {
    "braking": braking,
    "stick_slip": stick_slip,
    "cradle": cradle,
    "shaker": shaker,
    "oven": oven,
    "two_tanks": two_tanks,
    "clutch": clutch,
    "trailer": trailer,
}
"""By the name of the file in examples/systems."""
