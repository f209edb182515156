"""Wrong arguments of public names are named in Upbeat's own errors, and not by Python from deep inside."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up

MODEL = up.Ode({"x": "u - x"}, inputs=["u"])
SCENARIO = up.Scenario({"a": MODEL})
SYSTEM = up.SwitchedSystem([np.diag([0.5, 0.2]), np.diag([0.3, 0.6])])
EXPERIMENT = up.experiment(SCENARIO, step=0.1, until=0.2)
RIGHT: dict[str, dict[str, Any]] = {
    "Anderson": {},
    "Automaton": {"nodes": 1, "edges": [(0, 0, 0)]},
    "Checkpoint": {"path": "c"},
    "Clock": {"every": 0.1},
    "DormandPrince": {},
    "ErrorControl": {},
    "EventDriven": {},
    "EventLog": {},
    "Fixed": {"step": 0.1},
    "FixedPoint": {},
    "Fmu": {"path": "none.fmu"},
    "Function": {"outputs": {"y": "1"}},
    "GaussSeidel": {},
    "Hermite": {},
    "Interruptible": {},
    "Isolated": {"model": MODEL},
    "Iterated": {},
    "Jacobi": {},
    "LastValue": {},
    "LookAhead": {"step": 0.1},
    "Master": {"pace": 0.1},
    "MultiRate": {"rates": {"a": 2}},
    "NativeUnit": {"ports": [], "functions": {}},
    "Newton": {},
    "Ode": {"states": {"x": "-x"}},
    "Polynomial": {},
    "Port": {"name": "x", "causality": up.Causality.INPUT},
    "PythonFunction": {"function": lambda t, u, p: 1.0},
    "PythonOde": {"derivatives": lambda t, x, u, p: [0.0], "states": {"x": 0.0}},
    "PythonUnit": {"factory": object},
    "RealTime": {},
    "Refined": {},
    "Revised": {"pace": 0.1},
    "Sampler": {"every": 0.1},
    "Scenario": {"units": {"a": MODEL}},
    "Schedule": {"at": [1.0]},
    "Signals": {"time": [0, 1], "values": {"u": [0, 1]}},
    "Simultaneous": {},
    "SwitchedSystem": {"matrices": [np.eye(2)]},
    "Threshold": {},
    "as_continuous": {"model": up.LastValue(), "pace": 0.1, "inputs": {}, "events": {}, "hold": {}},
    "as_discrete": {"model": MODEL, "pace": 0.1},
    "consistent": {"scenario": SCENARIO, "constraints": ["a.x - 1"], "free": ["a.x"]},
    "decide": {"system": SYSTEM},
    "experiment": {"scenario": SCENARIO, "step": 0.1, "until": 1.0},
    "explain": {"experiment": EXPERIMENT},
    "joint_radius": {"system": SYSTEM},
    "largest_delay": {"system": None},
    "load": {"path": "none.toml"},
    "plot_map": {"found": None},
    "plot_stability": {"found": None},
    "read": {"path": "none.csv"},
    "read_signals": {"path": "none.csv", "scenario": SCENARIO},
    "read_ssp": {"path": "none.ssp"},
    "resume": {"checkpoint": "none"},
    "stabilise": {"system": SYSTEM},
    "stabilise_best": {"system": SYSTEM},
    "stabilise_greedily": {"system": SYSTEM},
    "stability_of": {"given": EXPERIMENT},
    "summary": {"trace": None},
    "write_report": {"what": up.Trace.from_arrays([], {}), "out": "o.html"},
    "write_scenario": {"what": SCENARIO, "path": "o.toml"},
    "write_ssp": {"what": SCENARIO, "path": "o.ssp"},
}
WRONG = (
    *(None, object(), 3, "x\0y", "x", b"x", [1], {"a": 1}, {1: 2}, [None], [object()], True, int),
    *(-1, 10**400, float("nan"), float("inf"), np.ones((2, 2))),
)


@pytest.mark.parametrize("name", RIGHT)
def test_wrong_arguments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One argument at a time, whatever it is: it is taken, or refused by an error of Upbeat."""
    monkeypatch.chdir(tmp_path)
    called = getattr(up, name)
    arguments = [p.name for p in inspect.signature(called).parameters.values() if p.kind not in (2, 4)]
    more = list(up.Settings.__annotations__) if name in ("experiment", "load") else []
    for argument in (*arguments, *more):
        for wrong in WRONG:
            if callable(wrong) and argument == "report":
                continue  # what it does when it is called is its own affair
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    called(**{**RIGHT[name], argument: wrong})
                except up.UpbeatError:
                    continue
                except Exception as error:
                    raise AssertionError(f"{name}({argument}={wrong!r:.40})") from error


def test_wrong_arguments_of_methods() -> None:
    trace = EXPERIMENT.run()
    with EXPERIMENT.open() as run:
        calls: list[Callable[[Any], object]] = [
            *(trace.at, trace.__getitem__, lambda wrong: trace.between(wrong, 1.0), SCENARIO.with_values),
            *(run.__getitem__, lambda wrong: run.set("a.u", wrong), lambda wrong: run.set(wrong, 1.0)),
            *(lambda wrong: up.Port("u", wrong), up.plot),
        ]
        for number, call in enumerate(calls):
            for wrong in WRONG:
                try:
                    call(wrong)
                except up.UpbeatError:
                    continue
                except Exception as error:
                    raise AssertionError(f"call {number} with {wrong!r:.40}") from error


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: up.read(3), "path must be the name of a file"),  # type: ignore[arg-type]
        (lambda: up.load(None), "path must be"),  # type: ignore[arg-type]
        (lambda: up.resume(3), "checkpoint must be"),  # type: ignore[arg-type]
        (lambda: up.Fmu(object()), "path must be"),  # type: ignore[arg-type]
        (lambda: up.Signals(None, {}), "times of signals"),  # type: ignore[arg-type]
        (lambda: up.Signals([0.0], {"u": 3}), "signal 'u'"),
        (lambda: up.Port("x", up.Causality.INPUT, size="3"), "size must be a whole number"),  # type: ignore[arg-type]
        (lambda: up.Port("x", "input"), r"causality must be one of Causality.INPUT"),  # type: ignore[arg-type]
        (lambda: up.Scenario([MODEL]), "units must be Mapping"),  # type: ignore[arg-type]
        (lambda: up.explain(SCENARIO), "experiment must be Experiment"),  # type: ignore[arg-type]
        (lambda: up.simulate(SCENARIO, step=0.1, until=0.2, every=10**400), "every"),
    ],
)
def test_the_argument_is_named(make: Callable[[], object], named: str) -> None:
    with pytest.raises(up.InvalidInput, match=named):
        make()


@pytest.mark.parametrize("engine", ["native", "interpret"])
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError(), "ValueError: no message"),
        (GeneratorExit(), "GeneratorExit: no message"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration(), "StopIteration: no message"),
    ],
)
def test_units_that_raise_odd_things_are_named(engine: Any, raised: BaseException, told: str) -> None:
    def compute(*_: object) -> None:
        raise raised

    scenario = up.Scenario({"a": up.PythonFunction(compute, inputs=["u"], outputs=["y"])})
    with pytest.raises(up.UnitError, match=f"unit 'a' failed in .*{told}"):
        up.simulate(scenario, step=0.1, until=0.2, engine=engine)


def test_a_run_cannot_be_pickled() -> None:
    with EXPERIMENT.open() as run:
        pass
    with pytest.raises(up.InvalidInput, match="checkpoint"):
        pickle.dumps(run)


def test_a_unit_in_another_process_cannot_be_pickled() -> None:
    unit: Any = up.Isolated(up.Ode(states={"x": "-x"}, outputs=["x"])).instantiate("a", 0.0)
    unit.close()
    with pytest.raises(up.ModelError, match="pickle its model"):
        pickle.dumps(unit)
