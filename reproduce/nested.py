"""Nested three deep is flat: the same bits, on both engines, with equal and with different rates.

Four pairs of a lag and a gain, p1 … p4. Flat, all eight units stand in one scenario. Nested, each pair
stands in a scenario of its own that also contains the next one, three deep: p1 outside, p2 in it, p3 in that,
p4 innermost; signals go in and out through every level. The nest is run twice: kept as it is (every level
runs its own master), and flattened as `simulate` does it unless told otherwise.

Equal rates: one Jacobi master with steps of 1/32 on all levels, with held, linear and quadratic inputs.
Different rates: all that is nested makes four steps for one outside, and flat means
`MultiRate(…, slower="beside")`. Every value of every signal must be equal bit for bit, to that of the flat
scenario and between the engines. Steps are powers of two, so that all communication points are exact
and rounding of times cannot blur the comparison. With another rate on every level (1, 2, 4, 8) there is no
one coupling for the flat scenario, and only what can be flattened is; kept and flattened must be equal.
Expected | here: how many of all values differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

import upbeat as up

STEP, UNTIL = 1 / 32, 8.0
PAIRS = ("p1", "p2", "p3", "p4")
LAG = up.Ode(inputs=["u"], states={"x": "u - 1.3*x"}, start={"x": 0.7})
GAIN = up.Function(inputs=["u"], outputs={"y": "0.4*u - 0.1"})
INPUTS = {"hold": up.Hold(), "linear": up.Linear(), "quadratic": up.Polynomial(2)}
ENGINES = ("interpret", "native")
WATCHED = {"x": "lag.x", "y": "gain.y"}
Traces = dict[str, up.Trace]


def flat() -> up.Scenario:
    """All pairs side by side: down a chain of lags, and back through the gains."""
    units: dict[str, up.Model] = {}
    links: dict[str, str] = {}
    for k, pair in enumerate(PAIRS):
        units |= {f"{pair}_lag": LAG, f"{pair}_gain": GAIN}
        above = f"{PAIRS[k - 1]}_lag.x" if k else "1"
        below = f" + {PAIRS[k + 1]}_gain.y" if k + 1 < len(PAIRS) else ""
        links[f"{pair}_lag.u"] = above + below
        links[f"{pair}_gain.u"] = f"{pair}_lag.x"
    outputs = {f"{pair}_{what}": f"{pair}_{port}" for pair in PAIRS for what, port in WATCHED.items()}
    return up.Scenario(units=units, connections=links, outputs=outputs)


def nested(masters: list[up.Master], *, flatten: bool, depth: int = 0) -> up.Scenario:
    """The pair of this depth, around a nest with the next one; `masters` are those of the nests."""
    units: dict[str, Any] = {"lag": LAG, "gain": GAIN}
    links = {"lag.u": "above" if depth else "1", "gain.u": "lag.x"}
    outputs = {f"{PAIRS[depth]}_{what}": port for what, port in WATCHED.items()}
    if depth + 1 < len(PAIRS):
        inside = nested(masters, flatten=flatten, depth=depth + 1)
        units["nest"] = up.Nested(inside, masters[depth], flatten=flatten)
        links |= {"lag.u": f"{links['lag.u']} + nest.{PAIRS[depth + 1]}_y", "nest.above": "lag.x"}
        outputs |= {
            f"{pair}_{what}": f"nest.{pair}_{what}" for pair in PAIRS[depth + 1 :] for what in WATCHED
        }
    return up.Scenario(units=units, connections=links, inputs=["above"] if depth else [], outputs=outputs)


def differing(one: up.Trace, other: up.Trace) -> tuple[int, int]:
    """How many of the values differ, and how many there are."""
    names = [f"{pair}_{what}" for pair in PAIRS for what in WATCHED]
    pairs = [(one.time, other.time), *((one[name], other[name]) for name in names)]
    if any(len(a) != len(b) for a, b in pairs):
        return sum(len(a) for a, _ in pairs), sum(len(a) for a, _ in pairs)
    return sum(int(np.sum(a != b)) for a, b in pairs), sum(len(a) for a, _ in pairs)


def rows() -> list[tuple[str, dict[str, Any], list[up.Master], int]]:
    """What is compared: its title, the master around it, those of the nests, how many become flat."""
    found: list[tuple[str, dict[str, Any], list[up.Master], int]] = []
    for name, inputs in INPUTS.items():
        same = up.Master(up.Fixed(STEP), inputs=inputs)
        found.append((f"equal rates, {name}", {"inputs": inputs}, [same] * 3, 3))
    found.append(("rates 1, 4, 4, 4", {}, [up.Master(up.Fixed(STEP / 4))] * 3, 3))
    found.append(("rates 1, 2, 4, 8", {}, [up.Master(up.Fixed(STEP / 2**k)) for k in (1, 2, 3)], 1))
    return found


def runs(title: str, how: dict[str, Any], masters: list[up.Master], engine: str) -> tuple[Traces, int]:
    """The traces of one row on one engine, and how many nests were flattened."""
    settings: dict[str, Any] = {"pace": STEP, "until": UNTIL, "engine": engine}
    kept = up.simulate(nested(masters, flatten=False), **settings, **how)
    merged = up.experiment(nested(masters, flatten=True), **settings, **how)
    traces = {"nested": kept, "flattened": merged.run()}
    if title == "rates 1, 4, 4, 4":
        rates = {f"{pair}_{unit}": 4 for pair in PAIRS[1:] for unit in ("lag", "gain")}
        coupling = up.MultiRate(rates, slower="beside")
        traces = {"flat": up.simulate(flat(), **settings, coupling=coupling), **traces}
    elif title.startswith("equal"):
        traces = {"flat": up.simulate(flat(), **settings, **how), **traces}
    return traces, sum(note.flattened for note in merged.plan.nested)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    differ: dict[str, dict[str, int]] = {}
    ok = True
    print(f"{'':24}{'engine':12}{'':34}{'expected':>9} | here: values that differ")
    for title, how, masters, expected in rows():
        differ[title] = {}
        reference: up.Trace | None = None
        for engine in ENGINES:
            traces, became = runs(title, how, masters, engine)
            for name, trace in traces.items():
                reference = reference or trace  # the first of all
                wrong, count = differing(reference, trace)
                differ[title][f"{engine}, {name}"] = wrong
                print(f"{title:24}{engine:12}{name:34}{0:>9} | {wrong} of {count}")
            print(f"{title:24}{engine:12}{'nests that were flattened':34}{expected:>9} | {became}")
            ok = ok and became == expected and not any(differ[title].values())
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(json.dumps({"differ": differ, "ok": ok}), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
