"""The third engine: a program as C gives the same traces, events, errors and checkpoints as the other two."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import upbeat as up
from strategies import experiments, on_engine, outcome
from upbeat.engine.native import machine as native_core
from upbeat.generate import compiling
from upbeat.generate.printing import sections
from upbeat.generate.program import enter_all, translate

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = [
    path
    for path in sorted(EXAMPLES.rglob("*.toml"))
    if path.parent.name
    != "engine"  # 30,000 lines: reproduce/generated.py has it, and two hundred random ones
]

needs_native = pytest.mark.skipif(not native_core.available(), reason="the native engine is not built")

try:
    compiling.compiler()
except up.InvalidInput:
    pytest.skip("there is no C compiler", allow_module_level=True)


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    """The bits do not depend on how hard the compiler tries, and tests have no time for that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "OPTIMISE", "-O0")
        yield


def prints(experiment: up.Experiment) -> bool:
    plan = experiment.plan
    return not enter_all(plan.program, plan.scenario.units, experiment.span.start, {})[1]


def loaded(path: Path) -> up.Experiment:
    made, signals = up.load(path), path.with_suffix(".csv")
    return made.with_(signals=up.read_signals(signals, made.scenario)) if signals.exists() else made


def ring(n: int = 3) -> up.Scenario:
    unit = up.Ode({"x": "-x + u"}, inputs={"u": 0.0}, outputs={"y": "x + 0.5"})
    connections = {f"u{(i + 1) % n}.u": f"u{i}.y" for i in range(n)}
    return up.Scenario({f"u{i}": unit for i in range(n)}, connections)


@needs_native
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_an_example_is_the_same_to_the_bit(path: Path) -> None:
    experiment = loaded(path)
    assert outcome(experiment.with_(engine="compiled")) == outcome(experiment.with_(engine="native"))


@needs_native
@settings(
    max_examples=int(os.environ.get("UPBEAT_EXAMPLES", "40")) // 4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(experiments(), st.booleans())
def test_three_engines_give_the_same_trace_or_the_same_error(
    experiment: up.Experiment, by_hand: bool
) -> None:
    native = experiment.with_(engine="native", scenario=on_engine("native", experiment.scenario))
    assume(prints(native))
    free = [name for name, (_, port) in native.closed.free_inputs.items() if port.kind is up.Kind.REAL]
    free = [name for name in free if native.closed.free_inputs[name][1].size is None]
    given_ = {0: [(name, 0.75) for name in free], 2: [(name, -1.0) for name in free[:1]]} if by_hand else None
    compiled = outcome(native.with_(engine="compiled"), given=given_)
    assert compiled == outcome(native, given=given_)
    interpreted = experiment.with_(engine="interpret", scenario=on_engine("interpret", experiment.scenario))
    assert compiled == outcome(interpreted, given=given_)


@needs_native
@pytest.mark.parametrize(
    "name", ["bouncing_ball/ball", "adaptation/heat_loss", "traffic_light", "adaptive_masses"]
)
def test_a_checkpoint_goes_on_in_another_engine(name: str) -> None:
    experiment = up.load(next(EXAMPLES.rglob(f"{name.rsplit('/', maxsplit=1)[-1]}.toml")))
    whole = experiment.with_(engine="native").run()
    for first, second in (("compiled", "native"), ("native", "compiled"), ("compiled", "compiled")):
        with experiment.with_(engine=first).open() as run, experiment.with_(engine=second).open() as other:
            for _ in range(5):
                run.step()
            machine, taking, loop = run._machine, other._machine, other._loop
            assert machine is not None
            assert taking is not None
            assert loop is not None
            taking.restore(taking.from_bytes(machine.to_bytes(machine.save())))
            loop.time = run.time
            rest = other.finish()
        assert rest.time[-1] == whole.time[-1]
        for column in whole.names:
            assert rest[column][-1] == whole[column][-1]


def test_numbers_that_units_start_with_have_names() -> None:
    made = translate(up.load(EXAMPLES / "power_window/power_window.toml").plan, 0.0)
    assert len(made.value_names) == len(made.values)
    assert "power.power.R" in made.value_names
    light = translate(up.load(EXAMPLES / "traffic_light.toml").plan, 0.0)
    assert light.value_names[0] == "light.state"
    assert light.value_names[-1] == "officer.shift"


def test_an_input_from_outside_may_be_a_polynomial() -> None:
    driven = up.Scenario({"m": up.Ode({"x": "u"}, inputs={"u": 0.0}, outputs={"x": "x"})})
    plan = up.experiment(driven, step=0.5, until=1.0).plan
    held, moving = (translate(plan, 0.0, rows=rows).source for rows in (None, {("m", "u"): 3}))
    assert "horner" not in held
    assert "horner" in moving


def test_the_command_line_runs_it_with_checkpoints(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "upbeat.cli.main"]
    file, kept = str(EXAMPLES / "tank.toml"), f"every=100steps,file={tmp_path / 'tank.checkpoint'}"
    options = ["--engine", "compiled", "--checkpoint", kept, "--out", str(tmp_path / "a.csv")]
    subprocess.run([*words, "run", file, *options], check=True, capture_output=True)
    subprocess.run([*words, "run", file, "--out", str(tmp_path / "b.csv")], check=True, capture_output=True)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


LAG = """
#include <stdio.h>
#include "scenario.c"
/* y' = u - y by Euler's rule, with rollback: what the class Lag of the test does in Python */
typedef struct { double y, u, kept[8][2]; } lag;
static int lag_get(void *self, int port, cell *to) { (void)port; to->r = ((lag *)self)->y; return 0; }
static int lag_set(void *self, int port, const cell *from, int count) {
  (void)port; (void)count;
  ((lag *)self)->u = from[0].r;
  return 0;
}
static int lag_advance(void *self, double t, double to, int early, double *reached) {
  lag *const one = self;
  (void)early;
  one->y = one->y + (to - t) * (one->u - one->y);
  *reached = to;
  return 0;
}
static int lag_save(void *self, int slot) {
  lag *const one = self;
  if (slot >= 8) return 1;
  one->kept[slot][0] = one->y;
  one->kept[slot][1] = one->u;
  return 0;
}
static int lag_restore(void *self, int slot) {
  lag *const one = self;
  one->y = one->kept[slot][0];
  one->u = one->kept[slot][1];
  return 0;
}
int main(void) {
  static scenario m;
  static scenario_saved saved;
  lag one = {0.25, 0.0, {{0.0}}};
  upbeat_unit table = {0};
  table.size = sizeof table;
  table.self = &one;
  table.get = lag_get;
  table.set = lag_set;
  table.advance = lag_advance;
  table.save = lag_save;
  table.restore = lag_restore;
  scenario_make(&m, 0.0, scenario_values);
  scenario_attach(&m, 1, &table);
  if (scenario_begin_units(&m) || scenario_begin(&m, 0, INFINITY)) return 1;
  if (scenario_run(&m, 0, 1.0, INT64_MAX, INFINITY) || scenario_save(&m, &saved)) return 2;
  if (scenario_run(&m, 0, 2.0, INT64_MAX, INFINITY)) return 3;
  printf("%a\\n", scenario_cells(&m)[CELL].r);
  if (scenario_restore(&m, &saved) || scenario_run(&m, 0, 2.0, INT64_MAX, INFINITY)) return 4;
  printf("%a\\n", scenario_cells(&m)[CELL].r);
  return 0;
}
"""


def test_units_that_are_not_printed_are_called_through_tables(tmp_path: Path) -> None:
    class Lag:
        def __init__(self, name: str, start: float, parameters: object) -> None:
            self.y, self.u = 0.25, 0.0

        def get(self, port: str) -> float:
            return self.y

        def set(self, port: str, coefficients: tuple[float, ...]) -> None:
            self.u = coefficients[0]

        def advance(self, t: float, to: float, early: bool) -> float:
            self.y = self.y + (to - t) * (self.u - self.y)
            return to

        def save(self) -> tuple[float, float]:
            return self.y, self.u

        def restore(self, token: tuple[float, float]) -> None:
            self.y, self.u = token

    ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
    lag = up.PythonUnit(Lag, ports, abilities=frozenset({up.Ability.ROLLBACK}))
    mass = up.Ode({"x": "v", "v": "-x - F"}, start={"x": 1.0}, inputs={"F": 0.0}, outputs={"x": "x"})
    scenario = up.Scenario({"mass": mass, "lag": lag}, {"mass.F": "lag.y", "lag.u": "mass.x"})
    made = up.experiment(scenario, step=0.125, until=2.0, coupling=up.Iterated(), engine="interpret")
    expected = made.run()["lag.y"][-1]
    text = translate(made.plan, 0.0, name="scenario", external="all").source
    (tmp_path / "scenario.c").write_text(text)
    cell = made.plan.program.columns["lag.y"].register
    (tmp_path / "main.c").write_text(LAG.replace("CELL", str(cell)))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-ffp-contract=off"]
    command = [*compiling.compiler(), *flags, str(tmp_path / "main.c"), "-o", str(tmp_path / "run"), "-lm"]
    subprocess.run(command, check=True)
    said = subprocess.run([str(tmp_path / "run")], check=True, capture_output=True, text=True).stdout
    assert [float.fromhex(line) for line in said.split()] == [expected, expected]


def test_the_table_of_functions_is_that_of_the_core() -> None:
    header = (Path(__file__).parents[2] / "native/include/upbeat/unit.h").read_text()
    members = [re.findall(r"\(\*(\w+)\)\(", text) for text in (header, sections()["unit"][1])]
    assert members[0] == members[1][: len(members[0])] != []


Made = Callable[[str, int], Path]


@needs_native
def test_fmus_and_processes_are_called_from_generated_code(fmu: Made) -> None:
    ways = [("co-simulation", 2), ("co-simulation", 3), ("model-exchange", 2), ("model-exchange", 3)]
    units: dict[str, object] = {"base": up.Ode({"x": "u - x"}, start={"x": 0.3}, inputs=["u"], outputs=["x"])}
    links = {"base.u": "f3.y"}
    for k, (interface, version) in enumerate(ways):
        isolation = "process" if k == 1 else "none"
        units[f"f{k}"] = up.Fmu(fmu("linear", version), interface=interface, isolation=isolation)
        links[f"f{k}.u"] = f"f{k - 1}.y" if k else "base.x"
    made = up.experiment(up.Scenario(units, links), step=0.05, until=1.0)
    compiled, native = (made.with_(engine=engine) for engine in ("compiled", "native"))
    assert outcome(compiled) == outcome(native)
    with compiled.open() as run, native.open() as other:
        for _ in range(4):
            run.step()
            other.step()
        machine = run._machine
        assert machine is not None
        assert machine.solver_statistics() == other._machine.solver_statistics()  # type: ignore[union-attr]
        kept, before = machine.save(), run["f3.y"]
        run.step()
        machine.restore(kept)
        assert machine.read(made.plan.program.columns["f3.y"].register) == before
        with pytest.raises(up.InvalidInput, match="for checkpoints, use --engine native"):
            machine.to_bytes(kept)


@needs_native
def test_events_inside_fmus_and_their_failures(fmu: Made) -> None:
    balls = {
        "a": up.Fmu(fmu("ball", 3), interface="model-exchange"),
        "b": up.Fmu(fmu("ball", 3), parameters={"h": 0.8}),
    }
    made = up.experiment(up.Scenario(balls), step=0.05, until=2.0, coupling=up.Negotiated())
    assert outcome(made.with_(engine="compiled")) == outcome(made.with_(engine="native"))
    bad = {"a": up.Fmu(fmu("linear", 2)), "bad": up.Fmu(fmu("fail", 2), interface="co-simulation")}
    made = up.experiment(up.Scenario(bad, {"a.u": "bad.y"}), step=0.1, until=2.0)
    compiled, native = (outcome(made.with_(engine=engine)) for engine in ("compiled", "native"))
    assert compiled == native
    assert "bad" in compiled.error


@needs_native
def test_a_nested_scenario_with_an_fmu_inside_is_called_as_one(fmu: Made) -> None:
    """With one more nest in it, and one around it that is printed."""
    inside = up.Scenario(
        {"f": up.Fmu(fmu("linear", 2)), "lag": up.Ode({"z": "5*(u - z)"}, inputs=["u"])},
        {"f.u": "w + lag.z", "lag.u": "f.y"},
        inputs=["w"],
        outputs={"y": "f.y"},
    )
    inner = up.Nested(inside, up.Master(up.Fixed(0.05), coupling=up.GaussSeidel()), flatten=False)
    middle = up.Scenario({"n": inner}, {"n.w": "w"}, inputs=["w"], outputs={"y": "n.y"})
    nest = up.Nested(middle, up.Master(up.Fixed(0.1)), flatten=False)
    tank = up.Ode({"x": "y - x"}, inputs=["y"], start={"x": 1.0})
    scenario = up.Scenario({"tank": tank, "nest": nest}, {"tank.y": "nest.y", "nest.w": "tank.x"})
    for coupling in (up.Jacobi(), up.Iterated(up.GaussSeidel(), corrections=1)):
        made = up.experiment(scenario, step=0.1, until=1.0, coupling=coupling)
        found = [outcome(made.with_(engine=engine)) for engine in ("compiled", "native", "interpret")]
        assert not found[0].error
        assert found[0] == found[1] == found[2]
    bad = up.Scenario({"bad": up.Fmu(fmu("fail", 2), interface="co-simulation")}, outputs={"y": "bad.y"})
    broken = up.Scenario({"nest": up.Nested(bad, up.Master(up.Fixed(0.1)), flatten=False)})
    with pytest.raises(up.UnitError, match=r"'nest'.*'bad' failed"):
        up.simulate(broken, step=0.1, until=2.0, engine="compiled")


def test_statistics_of_solvers_are_those_of_the_interpreter() -> None:
    ball = up.load(EXAMPLES / "bouncing_ball/ball.toml")
    found = []
    for engine in ("compiled", "interpret"):
        with ball.with_(engine=engine).open() as run:
            for _ in range(200):
                run.step()
            found.append(run._machine.solver_statistics())  # type: ignore[union-attr]
    assert found[0] == found[1] != {}


def test_other_values_run_in_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    made = up.experiment(ring(), step=0.1, until=1.0, engine="compiled")
    compiled = []
    monkeypatch.setattr(
        "upbeat.generate.engine.library", lambda text: compiled.append(text) or compiling.library(text)
    )
    for start in (0.0, 1.5):
        other = made.with_values({"u0.x": start})
        assert outcome(other) == outcome(other.with_(engine="interpret"))
    assert len(set(compiled)) == 1


def test_instances_do_not_disturb_each_other() -> None:
    made = up.experiment(ring(), step=0.01, until=5.0, engine="compiled")
    runs = [made.with_values({"u1.x": float(k)}) for k in range(4)]
    expected = [one.with_(engine="interpret").run()["u2.y"] for one in runs]
    found: dict[int, np.ndarray] = {}
    threads = [
        threading.Thread(target=lambda k=k, one=one: found.update({k: one.run()["u2.y"]}))  # type: ignore[misc]
        for k, one in enumerate(runs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, values in enumerate(expected):
        assert np.array_equal(found[k], values)


def test_names_that_c_forbids_and_numbers_to_the_bit() -> None:
    odd = up.Ode(
        {"double": "-double*0.1 + int", "y1": "sin(NAN_)"},
        inputs={"int": 0.1, "NAN_": 1e-320},
        parameters={"void": -0.0, "is_x": 1e308},
        outputs={"for": "double + void", "exp_": "min(y1, is_x)", "t7": "double == 0 or not y1 > 1"},
    )
    units = {"while": odd, "a_b": odd, "class": odd, "m": odd, "c": odd}
    made = up.experiment(up.Scenario(units, {"while.int": "class.for"}), step=0.1, until=0.5)
    assert outcome(made.with_(engine="compiled")) == outcome(made.with_(engine="interpret"))


@pytest.mark.parametrize("name", ["bouncing_ball/ball", "adaptation/heat_loss", "traffic_light", "driven"])
def test_the_text_is_clean_c_that_runs_by_itself(name: str, tmp_path: Path) -> None:
    experiment = loaded(EXAMPLES / f"{name}.toml")
    trace = experiment.with_(engine="interpret").run()
    column = trace.names[0]
    cell = experiment.plan.program.columns[column].register
    text = translate(experiment.plan, experiment.span.start, name="scenario").source
    assert all(unit in text for unit in experiment.scenario.units)
    (tmp_path / "scenario.c").write_text(text)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "scenario.c"\n'
        "int main(void) {\n"
        "  static scenario one, two;\n"
        f"  scenario_make(&one, {experiment.span.start!r}, scenario_values);\n"
        f"  scenario_make(&two, {experiment.span.start!r}, scenario_values);\n"
        "  if (scenario_begin_units(&one) || scenario_begin(&one, 0, INFINITY)) return 1;\n"
        f"  if (scenario_run(&one, 0, {experiment.span.stop!r}, INT64_MAX, INFINITY)) return 2;\n"
        f'  printf("%a\\n", scenario_cells(&one)[{cell}].r);\n'
        "  return 0;\n}\n"
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-ffp-contract=off"]
    command = [*compiling.compiler(), *flags, str(tmp_path / "main.c"), "-o", str(tmp_path / "run"), "-lm"]
    subprocess.run(command, check=True)
    said = subprocess.run([str(tmp_path / "run")], check=True, capture_output=True, text=True).stdout
    if trace[column].dtype.kind == "f":
        assert float.fromhex(said) == trace[column][-1]
    for word in ("malloc", "printf", "memcpy", "stdlib"):
        assert word not in text


def test_what_cannot_be_printed_is_refused_by_name() -> None:
    class Clock:
        def __init__(self, name: str, start: float, parameters: object) -> None:
            self.t = start

        def get(self, port: str) -> float:
            return self.t

        def advance(self, t: float, to: float, early: bool) -> float:
            self.t = to
            return to

    scenario = up.Scenario({"tank": up.Ode({"x": "-x"}), "clock": up.PythonUnit(Clock, outputs={"t": {}})})
    with pytest.raises(up.InvalidInput, match=r"'clock' \(Python\).*--engine native"):
        up.simulate(scenario, step=0.1, until=1.0, engine="compiled")
    nest = up.Nested(
        up.Scenario(scenario.units, outputs={"y": "tank.x"}), up.Master(up.Fixed(0.1)), flatten=False
    )
    with pytest.raises(up.InvalidInput, match="Python"):
        up.simulate(up.Scenario({"nest": nest}), step=0.1, until=1.0, engine="compiled")
    with pytest.raises(up.MasterError, match="printed with the one around it"):
        up.Nested(
            up.Scenario(ring().units, outputs={"y": "u0.y"}), up.Master(up.Fixed(0.1)), engine="compiled"
        )
    made = up.experiment(ring(), step=0.1, until=1.0, engine="compiled", cores=2)
    with pytest.raises(up.InvalidInput, match="one core"):
        made.run()


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = up.experiment(ring(), step=0.1, until=1.0, engine="compiled")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(up.InvalidInput, match=r"needs a C compiler.*--engine native"):
        made.run()
    monkeypatch.setenv("CC", "no-such-compiler -O9")
    with pytest.raises(up.InvalidInput, match="'no-such-compiler', which is not there"):
        made.with_(engine="compiled", every=2).run()


def test_a_cache_that_cannot_be_written_is_told_and_a_broken_file_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = up.experiment(ring(2), step=0.1, until=1.0, engine="compiled")
    expected = outcome(made.with_(engine="interpret"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "upbeat").write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING):
        assert outcome(made) == expected
    assert "cannot be kept" in caplog.text
    assert "XDG_CACHE_HOME" in caplog.text
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert outcome(made.with_(every=2)).error == ""
    (kept,) = (tmp_path / "other/upbeat/compiled").iterdir()
    kept.unlink()  # a library that is loaded must not change under one's feet
    kept.write_bytes(b"half of it")
    assert outcome(made.with_(every=1)) == expected


def test_a_step_of_a_solver_that_follows_from_a_parameter_is_compiled_again() -> None:
    lag = up.Ode(
        {"x": "-x/tau"},
        start={"x": 1.0},
        parameters={"tau": 1.0},
        outputs=["x"],
        solver={"kind": "rk4", "step": "tau/4"},
    )
    made = up.experiment(up.Scenario({"lag": lag}), step=0.5, until=2.0, engine="compiled")
    made.run()
    assert abs(made.with_values({"lag.tau": 0.1}).run()["lag.x"][-1] - np.exp(-20.0)) < 1e-8
