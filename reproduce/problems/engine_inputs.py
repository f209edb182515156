"""What inputs that go on as they did change, against inputs that are held: errors, and gas from nowhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import upbeat as up
from problems.engine_goals import STEPS
from problems.engine_runs import EXHAUST, METHODS, PRESSURE, TORQUE, Split, errors, made

Traces = Mapping[tuple[str, int], up.Trace]
"""By method and communication step in microseconds."""
Numbers = dict[str, dict[str, float]]
"""Percent, by method and step."""


def linear(plan: up.Experiment, note: Callable[[str], None]) -> Traces:
    """All methods at all steps with inputs that go on along the line through their last two values."""
    found = {}
    for step in STEPS:
        for method in METHODS:
            note(f"{method} at {step} µs, linear inputs")
            found[method, step] = Split(method, step * 1e-6, inputs=up.Linear()).of(plan).run()
    return found


def compared(held: Traces, going_on: Traces, truth: up.Trace) -> dict[str, Any]:
    """Print both beside each other; what the JSON object has of it."""
    columns: dict[str, Callable[[up.Trace], float]] = {
        "torque": lambda trace: errors(trace, truth, TORQUE).mean,
        "torque (6)": lambda trace: errors(trace, truth, TORQUE).six,
        "p intake": lambda trace: errors(trace, truth, PRESSURE).mean,
        "p exhaust": lambda trace: errors(trace, truth, EXHAUST).mean,
        "gas made": lambda trace: made(trace, truth),
    }
    print(f"\npercent, mean/mean{'':20}" + "".join(f"{name:>12}" for name in columns))
    found: dict[str, dict[str, Numbers]] = {}
    for kind, traces in (("held", held), ("linear", going_on)):
        found[kind] = {name: {method: {} for method in METHODS} for name in columns}
        for step in STEPS:
            for method in METHODS:
                row = {name: measure(traces[method, step]) for name, measure in columns.items()}
                for name, value in row.items():
                    found[kind][name][method][str(step)] = value
                said = "".join(f"{value:12.3f}" for value in row.values())
                print(f"  {step:>5} µs {method:>9}, {kind + ' inputs':18}{said}")
    return {
        "linear_inputs": {
            "torque_error_percent": found["linear"]["torque"],
            "torque_error_percent_formula_6": found["linear"]["torque (6)"],
            "pressure_error_percent": found["linear"]["p intake"],
        },
        "exhaust_pressure_error_percent": {kind: found[kind]["p exhaust"] for kind in found},
        "mass_made_percent": {kind: found[kind]["gas made"] for kind in found},
    }
