"""Two masses under a ceiling, three times: exactly, in steps of one size, and looking ahead.

With --out FOLDER, the results and a picture of all three go there.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import upbeat as up

HERE = Path(__file__).parent
FINE = 0.0005  # so fine that lines between its points are exact enough
NEAR = 0.1  # an event so close to one of the exact solution, of the same kind, is that one
RUNS = {"fixed": ("fixed steps", "#D55E00"), "lookahead": ("looking ahead", "#0072B2")}
MASSES = ("upper.x", "lower.x")
INK, TRUTH = "#222222", "#c8c8c8"


EventTimes = list[tuple[str, float]]


class Verdict(NamedTuple):
    """A run beside the exact solution: its events that are right and wrong, those missed, and its error."""

    right: EventTimes
    wrong: EventTimes
    missed: EventTimes
    error: float


def exact() -> up.Trace:
    """The monolith, whose solver finds every event; it stops at each of them."""
    fine = up.DormandPrince(rtol=1e-12, atol=1e-13)
    whole = up.load(HERE / "lookahead.toml").monolithic(fine, pace=FINE)
    return whole.with_(master=up.Master(up.Fixed(FINE), up.Negotiated())).run()


def happened(trace: up.Trace) -> EventTimes:
    return [(event.name, event.time) for event in trace.events]


def judged(trace: up.Trace, truth: up.Trace) -> Verdict:
    """The error is the root of the mean square of what both masses together are off."""
    left, right, missed = happened(trace), [], []
    for name, time in happened(truth):
        same = [one for one in left if one[0] == name and abs(one[1] - time) < NEAR]
        if same:
            left.remove(same[0])
            right.append(same[0])
        else:
            missed.append((name, time))
    trace = trace.one_sided()
    off = sum(np.abs(trace[x] - np.interp(trace.time, truth.time, truth[x])) for x in MASSES)
    return Verdict(right, left, missed, float(np.sqrt(np.mean(off**2))))


def draw(truth: up.Trace, traces: dict[str, up.Trace], path: Path) -> None:
    """Each run over the exact solution, with its events; and the steps of all."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 6.2), layout="constrained")
    *panels, steps = figure.subplots(
        len(traces) + 1, 1, sharex=True, gridspec_kw={"height_ratios": [2.2] * len(traces) + [1]}
    )
    for axis, (name, trace) in zip(panels, traces.items(), strict=True):
        title, colour = RUNS[name]
        verdict = judged(trace, truth)
        for x in MASSES:
            axis.plot(truth.time, truth[x], color=TRUTH, linewidth=5, solid_capstyle="round")
            axis.plot(trace.time, trace[x], color=colour, linewidth=1.5)
            for events, on, style in (
                (verdict.right, trace, {"marker": "o", "s": 24, "color": colour}),
                (verdict.wrong, trace, {"marker": "x", "s": 30, "color": colour, "linewidths": 1.6}),
                (
                    verdict.missed,
                    truth,
                    {"marker": "o", "s": 30, "facecolors": "white", "edgecolors": "#777777"},
                ),
            ):
                # Only the upper mass meets the ceiling.
                times = [time for name, time in events if (x, name) != ("lower.x", "ceiling")]
                axis.scatter(times, np.interp(times, on.time, on[x]), zorder=4, **style)
        axis.axhline(-0.55, color=INK, linewidth=0.8)
        found = f"{len(verdict.right)} of {len(truth.events)} events"
        axis.set_title(
            f"{title}: {trace.steps.count} steps, {found}, error {verdict.error:.2g} m",
            loc="left", fontsize=10.5, color=colour, weight="bold",
        )  # fmt: skip
        axis.set_ylabel("position (m)", color=INK)
    for name, trace in traces.items():
        times, sizes = trace.steps.sizes()
        steps.step(times, sizes, where="post", color=RUNS[name][1], linewidth=1.2)
    steps.set_yscale("log")
    steps.set_yticks([0.01, 0.02, 0.05, 0.1], ["0.01", "0.02", "0.05", "0.1"])
    steps.minorticks_off()
    steps.set_ylabel("step (s)", color=INK)
    steps.set_xlabel("time (s)", color=INK)
    steps.set_xlim(truth.time[0], truth.time[-1])
    for axis in (*panels, steps):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, color="#ececec", linewidth=0.7)
        axis.set_axisbelow(True)
    key = "thick grey: the exact solution      ● event found      ○ event missed      × event too many"
    figure.suptitle(key, x=0.985, ha="right", fontsize=8.5, color="#666666")
    panels[0].text(20.08, -0.55, "ceiling", fontsize=8, va="center", color=INK)
    figure.savefig(path, dpi=120)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="a folder for the results and the picture")
    out = arguments.parse_args().out
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    truth, traces = exact(), {}
    print(f"{'20 s in steps of 0.08 s':26}{'steps':>6}{'events found':>15}{'too many':>10}{'error':>12}")
    for name, (title, _) in RUNS.items():
        plan = up.load(HERE / f"{name}.toml")
        if out is not None:
            plan = plan.with_(out=out / f"two_mass_{name}.csv")
        trace = traces[name] = plan.run()
        verdict = judged(trace, truth)
        found = f"{len(verdict.right)} of {len(truth.events)}"
        print(f"{title:26}{trace.steps.count:6}{found:>15}{len(verdict.wrong):10}{verdict.error:10.2g} m")
    if out is not None:
        draw(truth, traces, out / "two_mass.png")
        print(f"picture: {out / 'two_mass.png'}, results beside it")


if __name__ == "__main__":
    main()
