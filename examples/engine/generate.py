"""Writes engine.toml: a turbocharged four-cylinder engine in six units, from the descriptions of its parts.

python generate.py           say what is in the file beside this script, and whether it is as it should be
python generate.py --write   write it
python generate.py --settle  run it until it repeats itself, and keep that as its start (start.json)
"""

from __future__ import annotations

import argparse
import json
from math import pi
from pathlib import Path

from parts.air_path import CYLINDERS, air_path
from parts.control import controller
from parts.cylinder import cylinder
from parts.gas import STOICHIOMETRIC, R, energy
from parts.geometry import volume
from parts.part import Part, toml

import upbeat as up

HERE = Path(__file__).parent
FILE, START = HERE / "engine.toml", HERE / "start.json"
RPM, LOAD = 2000.0, 180.0
"""Speed of the crankshaft, and the torque that is asked for, N·m."""
ANGLES = {"1": 110.0, "3": 650.0, "4": 470.0, "2": 290.0}
"""Crank angles at the start, degrees, where nothing burns or is injected. The firing order is 1-3-4-2."""
ROUGH = {
    "1": (500.0, 1400.0, 1.0),
    "3": (350.0, 550.0, 0.08),
    "4": (115.0, 400.0, 0.1),
    "2": (120.0, 1000.0, 1.0),
}
"""For a first start: kPa, K and the part of burnt gas."""
CYCLE = 2 * 60 / RPM
SETTLING = 1000
"""Cycles until they look alike."""
TIGHT = up.DormandPrince(rtol=1e-7, atol=1e-9)
"""For settling, so that start values carry no error of a split."""

Start = float | int | bool
Starts = dict[str, dict[str, Start]]
"""Values of states and variables at the start, by unit."""

HEAD = """# A turbocharged four-cylinder spark-ignition engine of two litres, on a test bench of fixed speed.
# Written by generate.py: change that. The page docs/engine.md tells more.
#
# Six units: the air path, four cylinders that are resolved by crank angle, and the controller, each with its
# own solver. All of them have direct feedthrough and are connected in both directions, but no output depends
# on itself. Measures: g, L, K, s, kPa (kPa*L = J), mm2 (mm2*kPa/(m/s) = g/s), degrees of the crankshaft.
"""


def rough(number: str) -> dict[str, float]:
    """Where a cylinder is in its cycle, and roughly what is in it."""
    pressure, kelvin, burnt = ROUGH[number]
    mass = pressure * volume(ANGLES[number]) / (R * kelvin)
    fuel = (1 - burnt) * mass / (1 + STOICHIOMETRIC)
    state = {"phi": ANGLES[number], "m": mass, "b": burnt * mass, "f": fuel, "U": energy(mass, kelvin)}
    if number == "2":  # it has been injected, and waits for the intake valve
        state["vapour"] = 0.04
    return {name: round(value, 6) for name, value in state.items()}


def links() -> dict[str, str]:
    """Which input is driven by what."""
    found = {"air.throttle": "control.throttle", "air.gate": "control.gate", "air.speed": "speed"}
    for i in CYLINDERS:
        unit = f"c{i}"
        for end in ("im", "em"):
            found |= {f"{unit}.{kind}_{end}": f"air.{kind}_{end}_out" for kind in "pTfb"}
        found |= {f"{unit}.{name}": f"control.{name}" for name in ("spark", "fuel", "inject")}
        found |= {f"{unit}.speed": "speed", f"{unit}.T_coolant": "T_coolant"}
        found |= {f"air.{kind}{i}": f"{unit}.{kind}" for kind in ("w_in", "f_in", "b_in")}
        found |= {f"air.{kind}{i}": f"{unit}.{kind}" for kind in ("w_ex", "h_ex", "f_ex", "b_ex", "torque")}
        found |= {f"air.h_in{i}": f"{unit}.h_in_flow", f"control.knock{i}": f"{unit}.knock"}
    found |= {f"control.{name}": f"air.{name}_out" for name in ("p_im", "T_im", "p_boost")}
    found |= {f"control.{name}": f"air.{name}" for name in ("oxygen", "T_catalyst")}
    return found | {"control.demand": "demand"}


def text(start: Starts) -> str:
    """The scenario file, with these start values by unit."""
    parts: dict[str, Part] = {"air": air_path(), "cylinder": cylinder(), "control": controller()}
    solver = {"kind": "dormand_prince", "rtol": 1e-4, "atol": 1e-6}
    lines = [HEAD, "upbeat = 1", 'name = "engine"', ""]
    for part in parts.values():
        lines += part.lines()
    models = {"air": "air_path", **{f"c{i}": "cylinder" for i in CYLINDERS}, "control": "controller"}
    for unit, model in models.items():
        lines += [f"[units.{unit}]", f'model = "{model}"', f"solver = {toml(solver)}"]
        lines += [f"start = {toml(start[unit])}", ""] if start.get(unit) else [""]
    lines += ["[inputs]", f'speed = {{ start = {RPM * pi / 30!r}, unit = "rad/s" }}']
    lines += [f'demand = {{ start = {LOAD}, unit = "N*m" }}', 'T_coolant = { start = 363.0, unit = "K" }', ""]
    lines += ["[connections]", *(f'{target} = "{source}"' for target, source in links().items()), ""]
    lines += [
        "[master]",
        'coupling = "refined"',
        'inputs = "linear"',
        'pace = { kind = "fixed", step = 250e-6 }',
        "",
    ]
    lines += ["[run]", "until = 0.12", ""]
    lines += ["[record]", 'signals = ["air.torque", "air.p_*", "c*.pressure"]', ""]
    return "\n".join(lines)


def starts() -> Starts:
    """The start values that are kept beside this script; rough ones if there are none."""
    if START.exists():
        return json.loads(START.read_text())
    return {f"c{i}": rough(i) for i in CYLINDERS}


def settled() -> Starts:
    """States and variables of all units after a while, from rough ones, of the engine in one piece.

    Of the variables only those that are not what the model begins with.
    """
    HERE.joinpath("rough.toml").write_text(text({f"c{i}": rough(i) for i in CYLINDERS}))
    try:
        parts = up.load(HERE / "rough.toml").scenario
    finally:
        HERE.joinpath("rough.toml").unlink()
    units, first = {}, {}
    for name, model in parts.units.items():
        spec = model.to_spec()
        first[name] = {key: entry["start"] for key, entry in (spec["states"] | spec["variables"]).items()}
        shown = {f"kept_{key}": key for key in first[name]}
        units[name] = up.Ode(**{**spec, "outputs": spec["outputs"] | shown})
    whole = up.Scenario(units, links(), inputs=parts.inputs).monolith(TIGHT)
    signals = [f"{name}.kept_*" for name in units]
    trace = up.simulate(whole, pace=CYCLE, until=SETTLING * CYCLE, record=signals, jit=True)
    found: Starts = {}
    for name, starts in first.items():
        states = parts.units[name].to_spec()["states"]
        last = {key: kept(trace[f"{name}.kept_{key}"][-1], start) for key, start in starts.items()}
        found[name] = {key: value for key, value in last.items() if key in states or value != starts[key]}
    for i in CYLINDERS:
        found[f"c{i}"]["phi"] = ANGLES[i]  # but for rounding
    return found


def kept(value: float, like: Start) -> Start:
    """A recorded value as the file has it: truths and whole numbers as such, others with eight digits."""
    return type(like)(value) if isinstance(like, (bool, int)) else float(f"{value:.8g}")


def sizes(scenario: up.Scenario) -> dict[str, int]:
    """States and event indicators of all units; inputs and outputs without those of the controller."""
    models = scenario.units
    parts = [model.equations for name, model in models.items() if name != "control"]
    return {
        "states": sum(len(model.equations.start) for model in models.values()),
        "indicators": sum(len(model.equations.events) for model in models.values()),
        "inputs": sum(len(equations.inputs) for equations in parts),
        "outputs": sum(len(equations.outputs) for equations in parts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write engine.toml")
    parser.add_argument("--settle", action="store_true", help="find new start values, and write both files")
    options = parser.parse_args()
    if options.settle:
        START.write_text(json.dumps(settled(), indent=1) + "\n")
    wanted = text(starts())
    if options.write or options.settle:
        FILE.write_text(wanted)
    fresh = "as generate.py writes it" if FILE.read_text() == wanted else "OLD: python generate.py --write"
    found = sizes(up.load(FILE).scenario)
    print(f"engine.toml: {fresh}")
    print(", ".join(f"{count} {name}" for name, count in found.items()))


if __name__ == "__main__":
    main()
