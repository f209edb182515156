"""What studies and their answers say, in words and as data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from upbeat.explore.answers import Compared, Robustness, Sensitivity, Spread
from upbeat.explore.calibrate import Calibration
from upbeat.explore.optimise import Optimum
from upbeat.explore.store import Results


def summary(results: Results) -> dict[str, Any]:
    """A result in short, as plain data."""
    failed = results.failed
    found: dict[str, Any] = {
        "runs": len(results),
        "failed": int(failed.sum()),
        "reasons": _few(results.reasons),
        "doubtful": int(results.doubtful.sum()),
        "warnings": _few(_alike(results.warnings)),
        "parameters": list(results.parameters),
        "out": str(results.path) if results.path is not None else None,
        "outputs": {},
    }
    for name in results.outputs:
        values = results[name][~failed]
        values = values[np.isfinite(values)]
        if len(values):
            found["outputs"][name] = {
                "runs": len(values),
                "mean": float(values.mean()),
                "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                "min": float(values.min()),
                "max": float(values.max()),
            }
        else:
            found["outputs"][name] = None
    return found


_REASONS = 10
"""So many reasons are shown."""
_NUMBER = re.compile(r"(?<![\w'′])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def _few(reasons: Counter[str]) -> dict[str, int]:
    """Why runs failed, most often first. Very many reasons differ in numbers only, such as times."""
    if len(reasons) > _REASONS:
        reasons = _alike(reasons)
    found = dict(reasons.most_common(_REASONS))
    if others := reasons.total() - sum(found.values()):
        found[f"{len(reasons) - _REASONS} other reasons, which the results have"] = others
    return found


def _alike(reasons: Counter[str]) -> Counter[str]:
    """Those that differ in numbers only are one."""
    found: Counter[str] = Counter()
    for reason, count in reasons.items():
        found[_NUMBER.sub("…", reason)] += count
    return found


def described(results: Results) -> str:
    """The same for people."""
    found = summary(results)
    lines = [f"{found['runs']:,} runs" + (f", {found['failed']:,} of them failed" if found["failed"] else "")]
    for reason, count in found["reasons"].items():
        lines.append(f"  {count:,} ×  {reason}")
    rows = [("output", "mean", "std", "min", "max")]
    for name, values in found["outputs"].items():
        if values is None:
            rows.append((name, "no run has one", "", "", ""))
        else:
            rows.append((name, *(f"{values[key]:.5g}" for key in ("mean", "std", "min", "max"))))
    if len(rows) > 1:
        lines += table(rows)
    some = {name: one["runs"] for name, one in found["outputs"].items() if one is not None}
    for name, count in some.items():
        if count < found["runs"] - found["failed"]:
            lines.append(f"note: {name} has a value in {count:,} runs only")
    for warning, count in found["warnings"].items():
        lines.append(f"note: {count:,} runs are doubtful: {warning}")
    if found["out"]:
        lines.append(f"results in {found['out']}")
    return "\n".join(lines)


def of_uncertainty(spreads: Mapping[str, Spread]) -> tuple[dict[str, Any], str]:
    """Moments and quantiles with how well they are known."""
    data = {
        name: {
            "runs": one.runs,
            "mean": one.mean,
            "error": one.error,
            "std": one.std,
            "quantiles": {f"{p:g}": _numbers(values) for p, values in one.quantiles.items()},
            "converged": one.converged,
        }
        for name, one in spreads.items()
    }
    rows: list[tuple[str, ...]] = [
        ("output", "mean ± standard error", "std", "quantile", "value", "95 % from", "to")
    ]
    notes = []
    for name, one in spreads.items():
        first = (name, f"{one.mean:.5g} ± {one.error:.2g}", f"{one.std:.5g}")
        for p, values in one.quantiles.items():
            rows.append((*first, f"{100 * p:g} %", *(f"{v:.5g}" if isfinite(v) else "?" for v in values)))
            first = "", "", ""
        if not one.converged:
            notes.append(f"note: {name}: the means of both halves of the runs differ: take more samples")
        if not all(isfinite(v) for values in one.quantiles.values() for v in values):
            notes.append(f"note: {name}: {one.runs} runs are too few to bound all quantiles")
    return data, "\n".join([*table(rows), *notes])


def of_robustness(found: Robustness) -> tuple[dict[str, Any], str]:
    """Whether conclusions hold with other masters."""
    data = {
        output: {
            "holds": found.holds(output),
            "masters": {name: _compared(one) for name, one in each.items()},
        }
        for output, each in found.compared.items()
    }
    rows: list[tuple[str, ...]] = [
        ("output", "master", "change / spread", "rank correlation", "same best", "")
    ]
    for output, each in found.compared.items():
        for name, one in each.items():
            shown = f"{one.change:.2g}", f"{one.ranks:.3f}", "yes" if one.same_best else "no"
            rows.append((output, name, *shown, "" if found.holds(output) else "does not hold"))
    notes = [
        f"note: {output}: {one.lost} designs have a value either as it is or with '{name}', but not with both"
        for output, each in found.compared.items()
        for name, one in each.items()
        if one.lost
    ]
    return data, "\n".join([*table(rows), *notes])


def of_sensitivity(found: Sensitivity) -> tuple[dict[str, Any], str]:
    """Indices as data and for people."""
    data = {
        output: {one.parameter: _numbers((one.first, one.total)) for one in indices}
        for output, indices in found.indices.items()
    }
    names = ("alone", "with interactions") if found.method == "sobol" else ("mean effect", "mean size")
    lines = [f"sensitivity ({found.method}, {len(found.results):,} runs)"]
    for output, indices in found.indices.items():
        rows: list[tuple[str, ...]] = [(output, *names)]
        rows += [
            (
                f"  {one.parameter}",
                *(
                    f"{v:.3f} ± {w:.3f}"
                    for v, w in ((one.first, one.first_width), (one.total, one.total_width))
                ),
            )
            for one in indices
        ]
        lines += table(rows)
    return data, "\n".join([*lines, *(f"note: {note}" for note in found.notes)])


def of_optimum(found: Optimum) -> tuple[dict[str, Any], str]:
    """The best design, or the front."""
    data = {
        "parameters": list(found.names),
        "goals": list(found.goals),
        "designs": found.parameters.tolist(),
        "objectives": found.objectives.tolist(),
        "feasible": found.feasible,
        "evaluations": len(found.tried),
    }
    what = "the best design" if len(found.goals) == 1 else f"a front of {len(found.parameters)} designs"
    lines = [
        f"{what} of {len(found.tried):,} tried"
        + ("" if found.feasible else "; none keeps to all constraints")
    ]
    rows = [(*found.names, *found.goals)]
    every = max(1, len(found.parameters) // 8)
    for values, goals in list(zip(found.parameters, found.objectives, strict=True))[::every]:
        rows.append(tuple(f"{value:.6g}" for value in (*values, *goals)))
    return data, "\n".join([*lines, *table(rows)])


def of_calibration(found: Calibration) -> tuple[dict[str, Any], str]:
    """Parameters with their intervals."""
    data = {
        "estimates": {name: _numbers(one) for name, one in found.estimates.items()},
        "rms": found.rms,
        "converged": found.converged,
        "gradients": found.gradients,
        "notes": list(found.notes),
    }
    rows: list[tuple[str, ...]] = [("parameter", "value", "95 % from", "to")]
    rows += [
        (name, *(f"{v:.6g}" for v in (one.value, one.low, one.high))) for name, one in found.estimates.items()
    ]
    rms = f"{found.rms:.3g} of sigma" if found.known else f"{100.0 * found.rms:.3g} % of the range of signals"
    made = "gradients through equations" if found.gradients == "equations" else "gradients by differences"
    lines = [f"calibrated with {found.evaluations} runs, {made}; residuals {rms}"]
    return data, "\n".join([*lines, *table(rows), *(f"note: {note}" for note in found.notes)])


def _compared(one: Compared) -> dict[str, Any]:
    change, ranks = _numbers((one.change, one.ranks))
    return one._asdict() | {"change": change, "ranks": ranks}


def _numbers(values: Iterable[float]) -> list[float | None]:
    """As JSON has them, which knows no infinity."""
    return [float(value) if isfinite(value) else None for value in values]


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with their columns below each other: the first to the left, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    ]
