"""The controller: throttle and waste-gate for the load, fuel for the air, ignition before it knocks.

Four integrators with limits, each of which stops at its limit until the error changes its sign.
"""

from __future__ import annotations

from math import pi

from parts.air_path import CLOSED, CYLINDERS, WIDE, friction
from parts.gas import HEATING, STOICHIOMETRIC, R
from parts.geometry import SWEPT
from parts.part import Part


def controller() -> Part:
    part = Part("controller", "The controller: throttle, waste-gate, injection and ignition.")
    part.input("demand", "N*m", "the load that is asked for")
    part.input("p_im", "kPa", "sensors")
    part.input("T_im", "K")
    part.input("p_boost", "kPa")
    part.input("oxygen", "1")
    part.input("T_catalyst", "K")
    for i in CYLINDERS:
        part.input(f"knock{i}", "1")
    _load(part)
    _fuel(part)
    _ignition(part)
    part.output("throttle", "plate", "deg")
    part.output("gate", "flap", "1")
    part.output("fuel", "dose", "mg")
    part.output("spark", "advance", "deg")
    part.output("inject", "inject_at", "deg")
    return part


def _integral(part: Part, name: str, error: str, low: str, high: str, start: float, about: str) -> None:
    """An integrator of `error` that stays between its limits."""
    part.variable(f"{name}_low", False, f"{name} is at its limit")
    part.variable(f"{name}_high", False)
    part.state(name, f"0 if ({name}_low or {name}_high) else {error}", start, about)
    for flag, beyond, on, back in (
        ("low", f"{name} < {low}", "<", ">"),
        ("high", f"{name} > {high}", ">", "<"),
    ):
        goes = f"not {name}_{flag} and {beyond} and {error} {on} 0"
        part.event(f"{name}_gets_{flag}", goes, **{f"{name}_{flag}": True})
        part.event(
            f"{name}_leaves_{flag}", f"{name}_{flag} and {error} {back} 0", **{f"{name}_{flag}": False}
        )


def _load(part: Part) -> None:
    """The intake pressure for load and friction, tracked by throttle and waste-gate.

    Nobody measures the torque: this is feed-forward. It assumes that cylinders are filled with gas of 320
    K, and that 0.37 of its heat become work. That is what this engine does at 2000 turns per minute and 180
    N·m: a calibration on the test bench, as every controller of an engine has one. Elsewhere it is off.
    """
    charge = SWEPT * 4 / (R * 320.0)
    per_kpa = charge * HEATING / (1 + STOICHIOMETRIC) * 0.37 / (4 * pi)
    part.parameter("per_kpa", per_kpa, "N·m for each kPa of intake pressure")
    part.parameter("rubbing", friction(2.0) * 4 * SWEPT / (4 * pi), "N·m: friction at 2000 turns per minute")
    part.parameter("p_least", 30.0, "kPa: the least that is wanted, the most")
    part.parameter("p_most", 190.0)
    part.parameter("reserve", 12.0, "kPa that are wanted before the throttle beyond those behind it")
    part.local("p_wanted", "clip((demand + rubbing)/per_kpa, p_least, p_most)", "kPa")
    part.local("p_error", "p_wanted - p_im")
    part.local("boost_error", "p_wanted + reserve - p_boost")
    part.parameter("plate_gain", 0.15, "degrees/kPa, and degrees/(kPa·s)")
    part.parameter("plate_rate", 2.0)
    part.parameter("flap_gain", 0.01, "1/kPa, and 1/(kPa·s)")
    part.parameter("flap_rate", 0.04)
    part.variable(
        "cut", False, "no fuel, because of too much pressure; torque below what is asked for by far"
    )
    part.variable("short", False)
    part.local("plate", f"clip(plate_sum + plate_gain*p_error, {CLOSED}, {WIDE})")
    part.local("flap", "clip(flap_sum - flap_gain*boost_error, 0, 1)")
    _integral(part, "plate_sum", "plate_rate*p_error", f"{CLOSED}", f"{WIDE}", 25.0, "degrees: throttle")
    _integral(part, "flap_sum", "-flap_rate*boost_error", "0", "1", 0.3, "waste-gate")
    part.event("fuel_is_cut", "not cut and p_im > 215", cut=True)
    part.event("fuel_comes_back", "cut and p_im < 200", cut=False)
    part.event("torque_is_short", "not short and p_error > 40", short=True)
    part.event("torque_suffices", "short and p_error < 20", short=False)


def _fuel(part: Part) -> None:
    """Fuel for the air in a cylinder, trimmed by the lambda sensor; more, to cool the catalyst."""
    part.parameter("filling", 0.90, "volumetric efficiency that is assumed ([H] chapter 6)")
    part.parameter("inject_at", 190.0, "deg: injection begins while the intake valve is closed")
    part.variable("rich", False, "more fuel, to cool the catalyst")
    part.event("enrichment_begins", "not rich and T_catalyst > 1200", rich=True)
    part.event("enrichment_ends", "rich and T_catalyst < 1150", rich=False)
    part.local(
        "dose",
        f"0 if cut else 1000*filling*p_im*{SWEPT!r}/(R*T_im)/{STOICHIOMETRIC}*(1 + trim)"
        "*(1.1 if rich else 1)",
    )
    part.parameter("R", R)
    part.parameter("trim_rate", 2.0, "1/s")
    _integral(part, "trim", "trim_rate*(oxygen - 1)", "-0.2", "0.2", 0.0, "part of the fuel")


def _ignition(part: Part) -> None:
    """One half burnt 8° behind top dead centre is best ([H] chapter 9); later, where it would knock."""
    worst = "max(" + ", ".join(f"knock{i}" for i in CYLINDERS) + ")"
    part.parameter("best", -17.0, "deg: spark for the best torque (50 % of Wiebe's function come 25° later)")
    part.parameter("retard_rate", 40.0, "deg/s for each unit of the knock integral beyond 0.9")
    part.local("worst", worst)
    _integral(part, "retard", "retard_rate*(worst - 0.9)", "0", "15", 0.0, "deg: ignition later")
    part.local("advance", "best + retard")
