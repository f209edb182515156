"""The walls of a cylinder: the heat that they take, and what watches for heat. [H]: see `cylinder`."""

from __future__ import annotations

from math import pi

from parts.geometry import BORE, PISTON, STROKE, SWEPT
from parts.part import Part


def walls(part: Part) -> None:
    """Woschni's formula ([H] chapter 12), lumped walls, and monitors of what gets too hot."""
    part.variable("p_ref", 110.0, "the gas when the intake valve closed")
    part.variable("T_ref", 380.0)
    part.variable("V_ref", 0.45)
    part.variable("fired", False, "the pressure is above that of a motored engine")
    for flag in ("high_pressure", "hot_exhaust", "hot_head"):
        part.variable(flag, False)
    part.local("motored", f"p_ref*(V_ref/V)**{1.32!r}", "walls: kPa, m/s, W/(m²·K), m², W")
    part.local("stroke_speed", f"{2 * STROKE!r}*speed/(2*pi)")
    part.local("exchanging", "intake_open or exhaust_open")
    part.local(
        "stir",
        f"(6.18 if exchanging else 2.28)*stroke_speed + (3.24e-3*{SWEPT!r}*T_ref/(p_ref*V_ref)*(p - motored) "
        "if fired and not exchanging else 0)",
    )
    part.local("film_coefficient", f"{3.26 * BORE**-0.2!r}*p**0.8*T**(-0.55)*max(stir, 0.1)**0.8")
    part.event("pressure_of_fire", "not fired and not exchanging and p > motored*1.02", fired=True)
    part.event("pressure_of_motion", "fired and (exchanging or p < motored)", fired=False)
    part.local("q_head", f"film_coefficient*{1.1 * PISTON!r}*(T - T_head)")
    part.local("q_piston", f"film_coefficient*{PISTON!r}*(T - T_piston)")
    part.local("q_liner", f"film_coefficient*{pi * BORE!r}*way*(T - T_liner)")
    part.local("q_walls", "q_head + q_piston + q_liner")
    part.parameter(
        "head_cools", 22.0, "W/K from a wall to the coolant, for walls of 400 to 500 K ([H] chapter 12)"
    )
    part.parameter("piston_cools", 14.0)
    part.parameter("liner_cools", 25.0)
    part.parameter("intake_cools", 15.0)
    part.parameter("exhaust_port_cools", 8.0)
    part.parameter("head_holds", 900.0, "J/K: about 1 kg, 0.4 kg, 1 kg of aluminium, and the ports (choices)")
    part.parameter("piston_holds", 360.0)
    part.parameter("liner_holds", 900.0)
    part.parameter("port_holds", 400.0)
    part.event("pressure_gets_high", "not high_pressure and p > 9000", high_pressure=True)
    part.event("pressure_gets_low", "high_pressure and p < 8500", high_pressure=False)
    part.event("exhaust_gets_hot", "not hot_exhaust and exhaust_open and T > 1600", hot_exhaust=True)
    part.event("exhaust_gets_cool", "hot_exhaust and exhaust_open and T < 1500", hot_exhaust=False)
    part.event("head_gets_hot", "not hot_head and T_head > 560", hot_head=True)
    part.event("head_gets_cool", "hot_head and T_head < 550", hot_head=False)
