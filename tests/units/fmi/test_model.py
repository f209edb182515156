"""`Fmu`: ports, start values and their rules, and co-simulation on both engines as FMPy does it."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fmpy
import numpy as np
import pytest

import upbeat as up
from upbeat.units.fmi.ports import layout

Compiled = dict[tuple[str, int], Path]


@pytest.mark.parametrize("version", [2, 3])
def test_same_numbers_as_fmpy(compiled: Compiled, version: int, engine: str) -> None:
    path = compiled["linear", version]
    model = up.Fmu(path, parameters={"u": 1.0, "x": 0.25})
    trace = up.simulate(up.Scenario({"one": model}), pace=0.01, until=2.0, engine=engine)
    options = {"fmi_type": "CoSimulation", "stop_time": 2.0, "output_interval": 0.01}
    theirs = fmpy.simulate_fmu(str(path), start_values={"u": 1.0, "x": 0.25}, **options)
    assert len(trace["one.y"]) == 201
    np.testing.assert_allclose(trace["one.y"], theirs["y"], rtol=1e-12, atol=0)


@pytest.mark.parametrize("version", [2, 3])
def test_ports(compiled: Compiled, version: int) -> None:
    model = up.Fmu(compiled["linear", version])
    ports = {port.name: port for port in model.ports}
    assert [port.name for port in model.ports] == ["u", "y", "der(y)", "a", "b", "c", "d"]
    assert ports["u"].causality is up.Causality.INPUT
    assert ports["y"].causality is up.Causality.OUTPUT
    assert ports["y"].depends == {"u"}
    assert ports["a"].causality is up.Causality.PARAMETER
    assert (ports["a"].unit, ports["a"].start) == ("1/s", (-2.0,))


def test_the_description_is_read_without_unpacking(
    compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "extractall", lambda *_: pytest.fail("unpacked"))
    monkeypatch.setattr("upbeat.units.fmi.archive.unpack", lambda *_: pytest.fail("unpacked"))
    assert up.Fmu(compiled["gain", 2]).ports


def test_values(compiled: Compiled) -> None:
    model = up.Fmu(compiled["linear", 3])
    changed = model.with_values({"a": -1, "x": 3.0})
    assert {port.name: port.start for port in changed.ports}["a"] == (-1.0,)
    assert {port.name: port.start for port in model.ports}["a"] == (-2.0,)
    assert changed != model
    assert changed == up.Fmu(compiled["linear", 3], parameters={"x": 3.0, "a": -1.0})
    assert hash(changed) != hash(model)
    again = pickle.loads(pickle.dumps(changed))
    assert again == changed
    assert again.ports == changed.ports


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"aa": 1.0}, "Did you mean 'a'"),
        ({"y": 1.0}, "'y' cannot be set: the FMU calculates it"),
        ({"time": 1.0}, "it is the time, which the run gives"),
        ({"a": "two"}, "'a' is real, but was given 'two'"),
        ({"a[0]": 1.0}, "'a' is a single value"),
    ],
)
def test_values_that_cannot_be(compiled: Compiled, values: dict[str, object], complaint: str) -> None:
    with pytest.raises(up.ModelError, match=complaint.replace("(", r"\(").replace("[", r"\[")):
        up.Fmu(compiled["linear", 2]).with_values(values)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [2, 3])
def test_model_exchange(compiled: Compiled, version: int, engine: str) -> None:
    """x' = -2 x + u from 1 with u = 1: x = (1 + e^-2t) / 2, y = 3 x + u / 2."""
    model = up.Fmu(
        compiled["linear", version],
        interface="model-exchange",
        tolerance=1e-9,
        parameters={"u": 1},
        locals=["x"],
    )
    trace = up.simulate(up.Scenario({"one": model}), pace=0.1, until=1.0, engine=engine)
    x = (1 + np.exp(-2 * np.asarray(trace.time))) / 2
    np.testing.assert_allclose(trace["one.x"], x, rtol=1e-8)
    np.testing.assert_allclose(trace["one.y"], 3 * x + 0.5, rtol=1e-8)


def test_patterns_of_locals_take_brackets_as_they_are(compiled: Compiled) -> None:
    model = up.Fmu(compiled["linear", 3])
    x = model.description.by_name["x"]
    more = [replace(x, name=name, reference=100 + k) for k, name in enumerate(("q[1]", "q[2]", "r[1]"))]
    description = replace(model.description, variables=(*model.description.variables, *more))
    for pattern, found in (("q[1]", ["q[1]"]), ("q[*]", ["q[1]", "q[2]"]), ("*[1]", ["q[1]", "r[1]"])):
        ports = layout(description, model.interface, {}, [pattern]).ports
        assert [port.name for port in ports if "[" in port.name] == found


@pytest.mark.parametrize("version", [2, 3])
def test_numbers_as_fmi_files_write_them(fmu: Callable[[str, int], Path], version: int) -> None:
    """0 and 1 are booleans, and 2.0 is a whole number; nothing else is taken for one."""
    model = up.Fmu(fmu("types", version))
    kinds = {
        p.kind: p for p in model.ports if p.causality is up.Causality.INPUT and p.size is None and not p.items
    }
    boolean, integer = kinds[up.Kind.BOOLEAN].name, kinds[up.Kind.INTEGER].name
    starts = dict(model.with_values({boolean: 1, integer: 2.0}).starts)
    assert starts == {boolean: (True,), integer: (2,)}
    assert starts[boolean][0] is True
    assert type(starts[integer][0]) is int
    assert dict(model.with_values({boolean: 0.0}).starts)[boolean][0] is False
    for name, value in ((boolean, 2), (boolean, "true"), (boolean, 0.5), (integer, 2.5), (integer, True)):
        with pytest.raises(up.ModelError, match="but was given"):
            model.with_values({name: value})
