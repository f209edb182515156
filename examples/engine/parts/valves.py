"""The openings of a cylinder: intake and exhaust valves, their ports, and the gaps of the piston rings."""

from __future__ import annotations

from math import pi, tan

from parts.gas import HOT, STOICHIOMETRIC, enthalpy, restriction
from parts.part import Part


def valve(
    part: Part,
    name: str,
    opening: float,
    closing: float,
    *,
    diameter: float,
    lift: float,
    before: tuple[str, str],
    behind: tuple[str, str],
    gamma: float,
) -> None:
    """Two valves. As they lift, three different areas are the smallest ([H] chapter 6, seats of 45°)."""
    size, seat, stem = 1000 * diameter, 1.5, 6.0
    port, mean = size - 2 * seat + 0.2, size - seat
    full = pi / 4 * (port**2 - stem**2)
    first = 2 * seat
    second = (((port**2 - stem**2) / (4 * mean)) ** 2 - seat**2) ** 0.5 + seat * tan(pi / 4)
    what = f"{name} valves (two): opening and closing angle, highest lift and seat width, mm"
    part.parameter(f"{name}_opening", opening, what)
    part.parameter(f"{name}_closing", closing)
    part.parameter(f"{name}_highest", lift)
    part.parameter(f"{name}_seat", seat)
    part.parameter(
        f"{name}_head",
        size,
        "diameter of the head, lifts at which another area is the smallest, and that of the port",
    )
    part.parameter(f"{name}_first", first)
    part.parameter(f"{name}_second", second)
    part.parameter(f"{name}_full", full)
    part.parameter(f"{name}_discharge", 0.65, "discharge coefficient ([H] chapter 6)")
    part.variable(f"{name}_open", False, f"{name} valves: open, and the stage of their lift")
    part.variable(f"{name}_stage", 1)
    part.local(
        f"{name}_lift",
        f"{name}_highest*sin(pi*(phi - {name}_opening)/({name}_closing - {name}_opening))**2"
        f" if {name}_open else 0",
        f"{name} valves: lift, mm, and area, mm²",
    )
    part.local(
        f"{name}_gap",
        f"pi*{name}_lift*{0.5**0.5!r}*({name}_head - 2*{name}_seat + {name}_lift/2) if {name}_stage == 1 "
        f"else (pi*({name}_head - {name}_seat)*hypot({name}_lift - {name}_seat, {name}_seat) "
        f"if {name}_stage == 2 else {name}_full)",
    )
    part.local(f"{name}_area", f"2*{name}_discharge*{name}_gap if {name}_open else 0")
    window = f"phi >= {name}_opening and phi < {name}_closing"
    part.event(f"{name}_opens", f"not {name}_open and {window}", **{f"{name}_open": True, f"{name}_stage": 1})
    closes = {f"{name}_open": False, f"{name}_stage": 1}
    if name == "intake":  # the state to which Woschni's formula refers, and what has been trapped
        closes |= {"p_ref": "p", "T_ref": "T", "V_ref": "V", "charge": "m - b"}
        closes |= {"lambda_trapped": f"(m - f - b)/({STOICHIOMETRIC}*max(f, 1e-6))", "knocking": "0.0"}
    part.event(f"{name}_closes", f"{name}_open and phi >= {name}_closing", **closes)
    for stage, limit in ((1, "first"), (2, "second")):
        part.event(
            f"{name}_lifts_{limit}",
            f"{name}_open and {name}_stage == {stage} and {name}_lift > {name}_{limit}",
            **{f"{name}_stage": stage + 1},
        )
        part.event(
            f"{name}_sinks_{limit}",
            f"{name}_open and {name}_stage == {stage + 1} and {name}_lift < {name}_{limit}",
            **{f"{name}_stage": stage},
        )
    restriction(
        part, name, area=f"{name}_area", before=before, behind=behind, gamma=gamma, enabled=f"{name}_open"
    )


def valve_ports(part: Part) -> None:
    """Gas takes up heat in the intake port, and leaves some in the exhaust port; fuel waits in the former."""
    part.parameter(
        "intake_warms", 0.05, "part of the way to the wall's temperature that gas goes in a port (choice)"
    )
    part.parameter("exhaust_cools", 0.12)
    part.parameter("port", 0.25, "L: intake port")
    part.local(
        "h_im", enthalpy("T_im"), "gas through the valves: enthalpy, J/g; fuel, burnt gas, g/s; heat, W"
    )
    part.local("h_em", enthalpy("T_em"))
    part.local("intake_h", "intake_flow*(h_cyl if intake_back else h_im)")
    part.local("intake_f", "intake_flow*(f_cyl if intake_back else f_im)")
    part.local("intake_b", "intake_flow*(b_cyl if intake_back else b_im)")
    part.local("drawn", "0 if intake_back else intake_flow*vapour*R*T_im/(p_im*port)")
    part.local(
        "intake_heat", "0 if intake_back else intake_warms*intake_flow*(C0 + R + C1*T_im)*(T_intake - T_im)"
    )
    part.local("exhaust_h", "exhaust_flow*(h_em if exhaust_back else h_cyl)")
    part.local("exhaust_f", "exhaust_flow*(f_em if exhaust_back else f_cyl)")
    part.local("exhaust_b", "exhaust_flow*(b_em if exhaust_back else b_cyl)")
    part.local(
        "exhaust_heat", "0 if exhaust_back else exhaust_cools*exhaust_flow*(C0 + R + C1*T)*(T - T_exhaust)"
    )


def blow_by(part: Part) -> None:
    """Gas that leaks past the rings: about a percent of the charge ([H] chapter 8).

    What area that takes: at this load a cylinder traps 0.6 g in a cycle of 60 ms, of which a percent is 0.1
    g/s in the mean. Towards the crankcase the flow is choked most of the time, area·p/sqrt(R·T)·0.673 (for
    a ratio of specific heats of 4/3), with a mean pressure of 610 kPa, and, where most of it flows, some
    1500 K: area = 0.1 g/s * sqrt(287 * 1500) m/s / (0.673 * 610 kPa) = 0.16 mm².
    """
    part.parameter("gap", 0.15, "mm²: ring gaps, with about a percent of the charge lost ([H] chapter 8)")
    restriction(part, "leak", area="gap", before=("p", "T"), behind=("p_crankcase", "T_crankcase"), gamma=HOT)
    part.local("h_crankcase", enthalpy("T_crankcase"))
    part.local("leak_h", "leak_flow*(h_crankcase if leak_back else h_cyl)")
    part.local("leak_f", "0 if leak_back else leak_flow*f_cyl")
    part.local("leak_b", "0 if leak_back else leak_flow*b_cyl")
