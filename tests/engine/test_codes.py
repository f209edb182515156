"""Enumerations with codes of their own, as FMUs have them, on both engines and through all files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import upbeat as up
from upbeat.scenario.files.reading import read_text, scenario_text
from upbeat.units.shorthand import ports

ITEMS = {"off": 1, "heat": 4, "cool": -2}
CODES = [1, 1, 4, 4, -2]
SETTINGS = {"pace": 1.0, "until": 4.0}


class Device:
    """What it is told, as a code; it tells a label."""

    def __init__(self, name: str, start: float, values: dict[str, object]) -> None:
        self.mode = 1

    def set(self, port: str, coefficients: list[int]) -> None:
        self.mode = coefficients[0]

    def get(self, port: str) -> str:
        return {code: label for label, code in ITEMS.items()}[self.mode]

    def advance(self, t: float, to: float, early: bool) -> float:
        return to


DEVICE = up.PythonUnit(Device, ports({"mode": {"items": ITEMS}}, {"said": {"items": ITEMS}}))
PLAYED = up.Signals([0, 2, 4], {"wish": ["off", 4, "cool"]})


def scenario(device: up.PythonUnit = DEVICE) -> up.Scenario:
    return up.Scenario(
        {
            "device": device,
            "plant": up.Function(
                inputs={"mode": {"items": ITEMS}},
                outputs={
                    "power": "3 if mode == 'heat' else 0",
                    "next": {"value": "mode if mode != 'off' else -2", "items": ITEMS},
                },
            ),
        },
        {"device.mode": "wish", "plant.mode": "device.said"},
        inputs={"wish": {"items": ITEMS, "start": "off"}},
        outputs={"hot": "device.said == 'heat'", "said": "device.said"},
    )


def test_codes_run(engine: str, tmp_path: Path) -> None:
    trace = up.simulate(scenario(), **SETTINGS, engine=engine, signals=PLAYED)
    assert trace["device.said"].tolist() == CODES
    assert trace["said"].tolist() == CODES
    assert trace["hot"].tolist() == [code == 4 for code in CODES]
    assert trace["plant.power"].tolist() == [3 * (code == 4) for code in CODES]
    assert trace["plant.next"].tolist() == [code if code != 1 else -2 for code in CODES]
    assert trace.labels("device.said").tolist() == ["off", "off", "heat", "heat", "cool"]
    assert "cool" in up.summary(trace)
    for suffix in ("csv", "journal", *(("parquet",) if find_spec("pyarrow") else ())):
        trace.save(tmp_path / f"r.{suffix}")
        back = up.read(tmp_path / f"r.{suffix}")
        assert back["device.said"].tolist() == CODES
        if back.column("device.said").items:
            assert back.labels("device.said").tolist() == trace.labels("device.said").tolist()


def test_events_with_codes(engine: str, tmp_path: Path) -> None:
    made = up.Scenario(
        {
            "clock": up.Schedule([1.0, 3.0], ["heat", "cool"], items=ITEMS),
            "held": up.LastValue("off", items=ITEMS),
            "other": up.LastValue(0, of="integer"),
        },
        {
            "held.event": "clock.event",
            "other.event": {"event": "clock.event", "map": {"heat": 7, "cool": 8}},
        },
    )
    trace = up.simulate(made, **SETTINGS, engine=engine)
    assert trace.at([0.5, 2.0, 4.0], "held.value").tolist() == [1, 4, -2]
    assert trace.at([0.5, 2.0, 4.0], "other.value").tolist() == [0, 7, 8]
    assert [event.value for event in trace.events if event.name == "clock.event"] == ["heat", "cool"]
    for suffix in ("csv", "journal"):
        trace.save(tmp_path / f"e.{suffix}")
        assert up.read(tmp_path / f"e.{suffix}").events.counts() == trace.events.counts()
    again = read_text(scenario_text(made)).scenario
    assert again == made
    assert again.port("held.value").codes == (1, 4, -2)


def test_a_machine_with_codes(engine: str) -> None:
    machine = up.StateMachine(
        transitions=[{"from": "a", "to": "b", "after": 1.0, "do": {"m": "cool"}, "emit": {"said": "heat"}}],
        states=["a", "b"],
        initial="a",
        variables={"m": {"start": "off", "items": ITEMS}},
        outputs={"said": {"event": True, "items": ITEMS}, "shown": {"value": "m", "items": ITEMS}},
    )
    trace = up.simulate(
        up.Scenario({"a": machine, "b": up.LastValue("off", items=ITEMS)}, {"b.event": "a.said"}),
        **SETTINGS,
        engine=engine,
    )
    assert trace["a.shown"][[0, -1]].tolist() == [1, -2]
    assert trace["b.value"][[0, -1]].tolist() == [1, 4]


def test_the_same_labels_with_other_codes_do_not_fit() -> None:
    plain = up.Function(inputs={"mode": {"items": list(ITEMS)}}, outputs={"y": "1"})
    with pytest.raises(up.ScenarioError, match=r"enumeration \(off, heat, cool\), but 'device.said' is "
                       r"enumeration \(off = 1, heat = 4, cool = -2\)"):  # fmt: skip
        up.Scenario({"device": DEVICE, "plain": plain}, {"plain.mode": "device.said"})


def test_files_keep_codes() -> None:
    made = up.Scenario(
        {"a": scenario().units["plant"]}, {"a.mode": "wish"},
        inputs={"wish": {"items": ITEMS, "start": "heat"}},
        outputs={"next": {"value": "4 if a.power > 1 else 1", "items": ITEMS}},
    )  # fmt: skip
    text = scenario_text(made)
    assert "{ off = 1, heat = 4, cool = -2 }" in text
    assert read_text(text).scenario == made
    assert made.with_values({"wish": "cool"}).inputs[0].start == (-2,)


def test_signals_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("time,wish\n0,off\n1,4\n2,cool\n")
    assert up.read_signals(path, scenario()).values["wish"] == (1, 4, -2)
    path.write_text("time,wish\n0,2\n")
    with pytest.raises(up.FileProblem, match="2 is not a code of off, heat, cool"):
        up.read_signals(path, scenario())


def test_a_picture_has_the_labels_at_their_codes() -> None:
    pytest.importorskip("matplotlib")
    trace = up.simulate(scenario(), **SETTINGS, signals=PLAYED)
    axis = up.plot(trace, ["device.said"]).axes[0]
    shown = dict(zip([t.get_text() for t in axis.get_yticklabels()], axis.get_yticks(), strict=True))
    assert shown == ITEMS


def test_a_device_as_a_discrete_unit(engine: str) -> None:
    nested = up.as_discrete(DEVICE, 1.0, sample=["said"])
    made = up.Scenario(
        {
            "sender": up.Schedule([1.0], ["heat"], items=ITEMS),
            "a": nested,
            "b": up.LastValue("off", items=ITEMS),
        },
        {"a.mode": "sender.event", "b.event": "a.said"},
    )
    trace = up.simulate(made, **SETTINGS, engine=engine)
    assert trace["b.value"][[0, -1]].tolist() == [1, 4]
