"""A `PythonUnit` with a sample time runs at its own rate, whatever the communication step."""

import json
import math
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.units.python import Sampled

KP, KI, A, T = 2.0, 1.5, 0.7, 0.1


class PI:
    """As people write one: it counts on being called at a fixed rate, and never looks at the time."""

    def __init__(self, name, start, parameters):
        self.e = self.i = 0.0

    def set(self, port, coefficients):
        assert len(coefficients) == 1, "inputs are constant over a sampling period"
        self.e = coefficients[0]

    def get(self, port):
        return KP * self.e + self.i

    def advance(self, t, to, early):
        assert not early
        assert math.isclose(to - t, T, rel_tol=1e-9), "no steps but whole periods"
        self.i += KI * T * self.e
        return to

    def save(self):
        return (self.e, self.i)

    def restore(self, token):
        self.e, self.i = token

    def to_bytes(self, token):
        return json.dumps(token).encode()

    def from_bytes(self, data):
        return tuple(json.loads(data))


def loop(abilities=("rollback", "serialise"), start=0.0):
    plant = up.Ode(
        {"x": f"-{A}*x + u"},
        inputs=["u"],
        start={"x": start},
        solver=up.DormandPrince(rtol=1e-11, atol=1e-13),
    )
    pi = up.PythonUnit(PI, inputs=["e"], outputs=["u"], abilities=abilities, sample_time=T)
    return up.Scenario({"plant": plant, "pi": pi}, {"plant.u": "pi.u", "pi.e": "1 - plant.x"})


def by_hand(samples, x=0.0):
    """The same loop written as a recursion: the plant solved exactly over a period of constant u."""
    i, found = 0.0, []
    for _ in range(samples):
        e = 1.0 - x
        u = KP * e + i
        found.append((x, u))
        i += KI * T * e
        decay = math.exp(-A * T)
        x = decay * x + (1 - decay) / A * u
    return found


@settings(max_examples=25, deadline=None)
@given(
    step=st.one_of(st.sampled_from([0.1, 0.05, 0.01, 0.2, 1.0]), st.floats(0.003, 0.7)),
    coupling=st.sampled_from(["jacobi", "gauss_seidel"]),
    inputs=st.sampled_from(["hold", "linear"]),
)
def test_the_same_samples_at_every_communication_step(step, coupling, inputs):
    """Judged by the recursion that a control engineer would write."""
    traces = [
        up.simulate(loop(), step=step, until=2.0, coupling=coupling, inputs=inputs, engine=engine)
        for engine in ("interpret", "native")
    ]
    one, other = traces
    for name in ("plant.x", "pi.u"):
        assert one[name].tobytes() == other[name].tobytes()
    at = {round(t / T): (x, u) for t, x, u in zip(one.time, one["plant.x"], one["pi.u"], strict=True)
          if abs(t / T - round(t / T)) < 1e-9}  # fmt: skip
    for k, (x, u) in enumerate(by_hand(21)):
        assert at[k] == pytest.approx((x, u), abs=1e-8)


def test_without_a_sample_time_the_step_decides_and_a_note_says_so():
    pi = up.PythonUnit(Free, inputs=["e"], outputs=["u"])
    trace = up.simulate(up.Scenario({"pi": pi}), step=0.05, until=0.2)
    (note,) = [note for note in trace.notes if "sample_time" in note]
    assert note.startswith("pi runs once per communication step (every 0.05 s)")
    assert not [note for note in up.simulate(loop(), step=0.05, until=0.2).notes if "sample_time" in note]


class Free(PI):
    def advance(self, t, to, early):
        return to


@pytest.mark.parametrize("engine", ["interpret", "native"])
def test_samples_are_kept_when_steps_are_repeated_or_resumed(engine, tmp_path):
    plain = up.simulate(loop(), step=0.03, until=1.0, coupling=up.Iterated(), engine=engine)
    assert plain["pi.u"][-1] == pytest.approx(by_hand(11)[-1][1], abs=1e-8)
    kept = tmp_path / "run.checkpoint"
    with up.start(
        loop(), step=0.03, until=1.0, engine=engine, checkpoint=kept, out=tmp_path / "a.csv"
    ) as run:
        for _ in range(20):
            run.step()
    resumed = up.resume(kept, experiment=up.experiment(loop(), step=0.03, until=1.0, engine=engine))
    whole = up.simulate(loop(), step=0.03, until=1.0, engine=engine)
    assert resumed["pi.u"][-1] == whole["pi.u"][-1]


def test_what_is_refused():
    for bad in (0, -1.0, math.inf, math.nan, "0.1", True):
        with pytest.raises(up.ModelError, match="sample_time: a sample time is a number of seconds above 0"):
            up.PythonUnit(PI, inputs=["e"], outputs=["u"], sample_time=bad)
    with pytest.raises(up.ModelError, match="no event ports"):
        up.PythonUnit(PI, inputs={"e": {"event": True}}, outputs=["u"], sample_time=0.1)


def test_bytes_of_another_unit_are_refused():
    model = up.PythonUnit(PI, inputs=["e"], outputs=["u"], abilities=["serialise", "rollback"], sample_time=T)
    unit = model.instantiate("pi", 0.0)
    assert isinstance(unit, Sampled)
    unit.advance(0.0, 0.0)
    unit.jump()
    token = unit.save()
    assert unit.from_bytes(unit.to_bytes(token)) == token
    for bad in (b"", b"[1]", b'{"tuple":[1.0,2,{"tuple":[]},{"dict":[]},{"bytes":""}]}'):
        with pytest.raises(up.ModelError, match="not a state of this unit"):
            unit.from_bytes(bad)


class Listens:
    """Notes how long its steps are."""

    steps: ClassVar[list[float]] = []  # of all units

    def __init__(self, name, start, parameters):
        self.y = 0.0

    def set(self, port, coefficients):
        pass

    def get(self, port):
        return self.y

    def advance(self, t, to, early):
        Listens.steps.append(to - t)
        self.y += 1.0
        return to


@pytest.mark.parametrize("sample_time", [None, 0.1])
@pytest.mark.parametrize(
    ("settings", "varies"),
    [
        ({"pace": up.Fixed(0.1), "until": 1.0}, False),
        ({"pace": up.Fixed(0.1), "until": 0.95}, False),  # the last step is short, that is all
        ({"pace": up.ErrorControl(1e-4, first=0.01, method="milne", correct="next"), "until": 2.0}, True),
        ({"pace": up.LookAhead(0.1), "until": 1.0}, True),
    ],
)
def test_a_unit_without_a_rate_in_steps_that_vary_is_told(settings, varies, sample_time, engine) -> None:
    """The unit itself is the judge of how long its steps were."""
    swing = up.Ode({"x": "v", "v": "-9*x"}, start={"x": 1.0}, outputs=["x", "v"])
    unit = up.PythonUnit(Listens, inputs=["u"], outputs=["y"], sample_time=sample_time)
    scenario = up.Scenario(
        {"swing": swing, "c": unit}, {"c.u": "swing.x"}, events={"half": {"when": "swing.x <= 0.5"}}
    )
    Listens.steps = []
    trace = up.simulate(scenario, engine=engine, **settings)
    found = [note for note in trace.notes if "ran once per communication step" in note]
    assert bool(found) == (varies and sample_time is None)
    if found:
        lengths = Listens.steps[:-1]
        assert f"between {min(lengths):.3g} s and {max(lengths):.3g} s long" in found[0]
