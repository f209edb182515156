"""Events that nobody has declared: which conditions `upbeat discover` finds in black boxes, and what they
gain.

Twelve systems whose units keep their events to themselves (`problems/hidden.py`), two of them without any,
and the two masses under a ceiling as FMUs (`problems/black_boxes.py`) with the published start and random
ones. A condition that is proposed with enough confidence is *found* if it is one of those of the system: the
same quantity in the same direction, its threshold within a tolerance that is said for each; otherwise it is
*false*. Conditions that come true only once in a run cannot be told from chance, and are not expected.

The two masses then run with what was found, and with the conditions as somebody who knows the masses declares
them, against the exact solution. All systems run once more with noise of 1 % of the range on every output of
a black box.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from problems.black_boxes import happened, made
from problems.hidden import SYSTEMS, Hidden, Truth, with_noise
from problems.truth_events import Reference as Exact
from problems.truth_events import System, drawn, judged

import upbeat as up

START = (-0.7, 3.5, -8.8, 3.0)
PUBLISHED = System(0.2, 0.3, 1.0, 1.0, 0.01, 0.01, 1.0, START, 0.08)
MASSES = (Truth("upper.x - lower.x <= 1.1", 0.02), Truth("upper.x >= -0.55", 0.02))
NOISE = 0.01
ASKED = {"precision": 0.9, "recall": 0.9, "gain": 3.0}


def plain(when: str) -> tuple[str, int, float]:
    """A condition in one form: its quantity, whether it rises, and the threshold."""
    if clock := re.fullmatch(r"every (\S+) from (\S+)", when):
        return f"every {float(clock[1]):.3g}", 1, float(clock[2])
    quantity, sign, threshold = re.fullmatch(r"(.*?) ([<>])= (\S+?)(?: and .*)?", when).groups()
    rising, value = (1 if sign == ">" else -1), float(threshold)
    terms = sorted(re.findall(r"([-+]?) ?([\w.()]+)", quantity), key=lambda term: term[1])
    signs = [-1 if sign == "-" else 1 for sign, _ in terms]
    if signs[0] < 0:
        signs, rising, value = [-sign for sign in signs], -rising, -value
    shown = " ".join(
        f"{'-' if sign < 0 else '+'}{name}" for sign, (_, name) in zip(signs, terms, strict=True)
    )
    return shown, rising, value


def is_true(truth: Truth, when: str) -> bool:
    own, found = plain(truth.when), plain(when)
    return own[:2] == found[:2] and abs(own[2] - found[2]) <= truth.within


def told(found: up.Discovery) -> list[str]:
    """What was found and is sure enough."""
    sure = (one for one in found.conditions if one.confidence >= found.minimum)
    return [one.when or f"every {one.every:g} from {one.offset:g}" for one in sure]


def counted(name: str, truths: Sequence[Truth], found: up.Discovery) -> dict[str, Any]:
    """Which of the true conditions were found, and which of the found ones are false."""
    conditions = told(found)
    right = [truth for truth in truths if any(is_true(truth, when) for when in conditions)]
    false = [when for when in conditions if not any(is_true(truth, when) for truth in truths)]
    return {
        "name": name, "true_conditions": len(truths), "found": len(right), "false": len(false),
        "conditions": conditions, "missed": [t.when for t in truths if t not in right], "wrong": false,
        "happened": len(found.happened), "unexplained": len(found.unexplained),
    }  # fmt: skip


def shares(systems: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Precision and recall over all systems."""
    found, false, true = (sum(one[key] for one in systems) for key in ("found", "false", "true_conditions"))
    return found / (found + false) if found + false else 1.0, found / true if true else 1.0


def discovered(system: Hidden, noise: float = 0.0) -> up.Discovery:
    scenario = system.make()
    if noise:
        clean = up.simulate(scenario, pace=up.Fixed(system.step), until=system.until)
        sizes = {name: noise * float(np.ptp(clean[name])) for name in clean.names}
        scenario = with_noise(scenario, sizes)
    return up.discover(scenario, step=system.step, until=system.until, vary=system.vary)


def repeated(exact: Exact) -> list[Truth]:
    """The conditions of the masses that come true at least twice."""
    kinds = [kind for kind, _ in exact.events]
    truths = dict(zip(("masses", "ceiling"), MASSES, strict=True))
    return [truth for kind, truth in truths.items() if kinds.count(kind) >= 2]


def two_masses(fmus: dict[str, Path], system: System, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is found in the two masses, and the errors: with steps of one size, declared and discovered."""
    exact = Exact(system)
    declared = system.boxes(fmus)
    bare = declared.with_parts(events=())
    found = up.discover(bare, step=system.step, until=20.0)
    runs = {
        "fixed": up.simulate(bare, pace=up.Fixed(system.step), until=20.0),
        "declared": up.simulate(declared, step=system.step, until=20.0),
        "discovered": found.improved().run() if found.sure else None,
    }
    errors: dict[str, Any] = {}
    for kind, trace in runs.items():
        verdict = None if trace is None else judged(trace, exact, happened(trace))
        errors[kind] = None if verdict is None else verdict.error
        errors[f"{kind}_right"] = None if verdict is None else verdict.right
    return counted(name, repeated(exact), found), errors


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--random", type=int, default=12, help="so many random pairs of masses (12)")
    arguments.add_argument("--seed", type=int, default=5, help="where the random ones begin (5)")
    arguments.add_argument("--without-noise", action="store_true", help="leave out the runs with noise")
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    logging.getLogger("upbeat").setLevel(logging.ERROR)
    systems: list[dict[str, Any]] = []
    print(f"{'system':14}{'true':>5}{'found':>6}{'false':>6}{'events':>8}  conditions")

    def shown(one: dict[str, Any]) -> dict[str, Any]:
        print(
            f"{one['name']:14}{one['true_conditions']:5}{one['found']:6}{one['false']:6}{one['happened']:8}  "
            + "; ".join(one["conditions"])
        )
        return one

    gains: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        fmus = made(Path(folder))
        first, errors = two_masses(fmus, PUBLISHED, "two_mass")
        systems.append(shown(first))
        for name, system in SYSTEMS.items():
            systems.append(shown(counted(name, system.truths, discovered(system))))
        turn = np.random.default_rng(options.seed)
        random = []
        for k in range(options.random):
            one, more = two_masses(fmus, drawn(turn)[0], f"masses {k + 1}")
            random.append(shown(one))
            if more["discovered"] is not None:
                gains.append(more["discovered"] / more["declared"])
    precision, recall = shares(systems)
    random_precision, random_recall = shares(random)
    gain = errors["discovered"] / errors["declared"]
    print(f"\nprecision {precision:.3f}, recall {recall:.3f} (asked: 0.9 and 0.9)")
    print(f"random masses: precision {random_precision:.3f}, recall {random_recall:.3f}")
    print(
        f"two masses, error: fixed steps {errors['fixed']:.3g} m, declared {errors['declared']:.3g} m, "
        f"discovered {errors['discovered']:.3g} m, {gain:.2f} of declared (asked: 3)"
    )
    if gains:
        print(
            f"random masses, discovered over declared: median {np.median(gains):.2f}, most {max(gains):.2f}"
        )
    noisy: list[dict[str, Any]] = []
    if not options.without_noise:
        print(f"\nwith noise of {100 * NOISE:g} %:")
        for name, system in SYSTEMS.items():
            noisy.append(shown(counted(name, system.truths, discovered(system, NOISE))))
        print(f"false conditions with noise: {sum(one['false'] for one in noisy)} (asked: 0)")
    misses = []
    misses += [f"precision {precision:.3f}"] if precision < ASKED["precision"] else []
    misses += [f"recall {recall:.3f}"] if recall < ASKED["recall"] else []
    misses += [f"gain {gain:.2f}"] if gain > ASKED["gain"] else []
    misses += [f"{one['name']} with noise: {one['wrong']}" for one in noisy if one["false"]]
    if options.json:
        result = {
            "systems": systems, "precision": precision, "recall": recall, "gain": {"two_mass": gain},
            "two_mass": errors, "known_misses": misses,
            "random": {
                "systems": random, "precision": random_precision, "recall": random_recall,
                "gain": {"median": float(np.median(gains)), "most": max(gains)} if gains else None,
            },
            "noise": {"size": NOISE, "systems": noisy, "false": sum(one["false"] for one in noisy)},
        }  # fmt: skip
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
