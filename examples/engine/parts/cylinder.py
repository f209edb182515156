"""A cylinder: crank drive, gas, valves, injection, ignition, combustion and walls.

The cylinder is one zone of gas, resolved by crank angle. Angles are in degrees from the top dead centre at
which it fires; a cycle goes from -60 to 660, because there both valves are closed and nothing burns.

Sources of numbers: [H] J. B. Heywood, Internal Combustion Engine Fundamentals, 1988; [E] L. Eriksson,
L. Nielsen, Modeling and Control of Engines and Drivelines, 2014, chapter 7 for the fuel film. What has no
source is marked as a choice.
"""

from __future__ import annotations

from parts.firing import combustion, ignition, injection, knock
from parts.gas import AIR, HOT, STOICHIOMETRIC, enthalpy, gas_parameters, temperature
from parts.geometry import BORE, PISTON, RATIO, ROD, STROKE, SWEPT
from parts.part import Part
from parts.valves import blow_by, valve, valve_ports
from parts.walls import walls

IVO, IVC, EVO, EVC = 350.0, 600.0, 130.0, 370.0
"""Valve timing: 10° before, 60° behind, 50° before and 10° behind a dead centre ([H] chapter 6)."""
FIRST, LAST = -60.0, 660.0


def cylinder() -> Part:
    part = Part("cylinder", "A cylinder, resolved by crank angle (degrees from its firing top dead centre).")
    _ports(part)
    gas_parameters(part)
    _crank_drive(part)
    _gas(part)
    valve(
        part,
        "intake",
        IVO,
        IVC,
        diameter=0.36 * BORE,
        lift=8.5,
        before=("p_im", "T_im"),
        behind=("p", "T"),
        gamma=AIR,
    )
    valve(
        part,
        "exhaust",
        EVO,
        EVC,
        diameter=0.31 * BORE,
        lift=8.0,
        before=("p", "T"),
        behind=("p_em", "T_em"),
        gamma=HOT,
    )
    valve_ports(part)
    blow_by(part)
    injection(part)
    ignition(part)
    combustion(part)
    knock(part)
    walls(part)
    _balances(part)
    _cycle(part)
    _outputs(part)
    return part


def _ports(part: Part) -> None:
    part.input(
        "p_im", "kPa", "intake manifold: pressure, temperature, fuel and burnt gas in its gas", start=120.0
    )
    part.input("T_im", "K", start=310.0)
    part.input("f_im", "1")
    part.input("b_im", "1")
    part.input("p_em", "kPa", "exhaust manifold", start=120.0)
    part.input("T_em", "K", start=1100.0)
    part.input("f_em", "1")
    part.input("b_em", "1")
    part.input("speed", "rad/s", "crankshaft")
    part.input("spark", "deg", "when to ignite")
    part.input("fuel", "mg", "how much to inject in a cycle, and from which angle on")
    part.input("inject", "deg")
    part.input("T_coolant", "K")


def _crank_drive(part: Part) -> None:
    radius = STROKE / 2
    part.parameter(
        "crank", radius, "crank drive: crank radius and connecting rod, m; piston, m²; clearance, L"
    )
    part.parameter("rod", ROD)
    part.parameter("piston", PISTON)
    part.parameter("clearance", SWEPT / (RATIO - 1))
    part.parameter("moving", 0.6, "kg of piston, pin and small end (choice)")
    part.local("angle", "phi*pi/180", "crank drive ([H] chapter 2): rad, m, m/rad, L, L/rad, L/s")
    part.local("reach", "sqrt(rod**2 - (crank*sin(angle))**2)")
    part.local("way", "crank + rod - crank*cos(angle) - reach")
    part.local("lever", "crank*sin(angle)*(1 + crank*cos(angle)/reach)")
    part.local("V", "clearance + 1000*piston*way")
    part.local("dV", "1000*piston*lever")
    part.local("growth", "dV*speed")
    part.local(
        "swing",
        "-moving*crank*speed**2*(cos(angle) + crank/rod*cos(2*angle))*lever",
        "N·m: inertia of what moves",
    )
    part.parameter("p_crankcase", 100.0, "kPa, and K ([H] chapter 8)")
    part.parameter("T_crankcase", 360.0)
    part.local("pull", "(p - p_crankcase)*dV + swing", "N·m")


def _gas(part: Part) -> None:
    part.local("T", temperature("m", "U"), "the gas: K, kPa, and the parts that are fuel, burnt and air")
    part.local("p", "m*R*T/V")
    part.local("f_cyl", "f/m")
    part.local("b_cyl", "b/m")
    part.local("h_cyl", enthalpy("T"))


def _balances(part: Part) -> None:
    part.state("phi", "speed*180/pi", 110.0, "deg: crank angle")
    part.state(
        "m",
        "intake_flow + drawn - exhaust_flow - leak_flow",
        0.6,
        "g: gas, fuel in it, burnt gas in it; J: inner energy",
    )
    part.state("f", "intake_f + drawn - exhaust_f - leak_f - burns", 0.0)
    part.state("b", f"intake_b - exhaust_b - leak_b + {1 + STOICHIOMETRIC}*burns", 0.6)
    part.state(
        "U",
        "intake_h + intake_heat + drawn*h_im - exhaust_h - leak_h - p*growth - q_walls + heating*burns",
        400.0,
    )
    part.state(
        "film", "wetting*spray - film/drying", 0.0, "g: fuel on the wall of the intake port, and in its gas"
    )
    part.state("vapour", "(1 - wetting)*spray + film/drying - drawn", 0.0)
    part.state("injected", "spray", 0.0, "g: fuel injected in this cycle")
    part.state("T_head", "(q_head - head_cools*(T_head - T_coolant))/head_holds", 470.0, "K: walls")
    part.state("T_piston", "(q_piston - piston_cools*(T_piston - T_coolant))/piston_holds", 500.0)
    part.state("T_liner", "(q_liner - liner_cools*(T_liner - T_coolant))/liner_holds", 400.0)
    part.state(
        "T_intake", "(intake_cools*(T_coolant - T_intake) - intake_heat - drawn*h_im)/port_holds", 350.0
    )
    part.state("T_exhaust", "(exhaust_heat - exhaust_port_cools*(T_exhaust - T_coolant))/port_holds", 500.0)
    part.state(
        "current",
        "(battery - resistance*current)/inductance if charging and not limited else 0",
        0.0,
        "A: ignition coil",
    )
    part.state("knocking", "nears", 0.0, "the integral that is 1 when it knocks")
    part.state("work", "p*growth", 0.0, "J, g: what has come about in this cycle")
    part.state("heat", "q_walls", 0.0)
    part.state("released", "heating*burns", 0.0)
    part.state("inhaled", "intake_flow", 0.0)
    part.state("exhaled", "exhaust_flow", 0.0)
    part.state("leaked", "leak_flow", 0.0)
    part.state("h_in", "intake_h + intake_heat + drawn*h_im", 0.0)
    part.state("h_out", "exhaust_h + leak_h", 0.0)


def _cycle(part: Part) -> None:
    part.variable("stroke", 2, "0 compression, 1 expansion, 2 exhaust, 3 intake")
    part.variable(
        "imep", 900.0, "kPa, g: of the last cycle; charge and air to fuel when the intake valve closed last"
    )
    part.variable("charge", 0.6)
    part.variable("lambda_trapped", 1.0)
    sums = ("work", "heat", "released", "inhaled", "exhaled", "leaked", "h_in", "h_out")
    part.event(
        "cycle_ends", f"phi >= {LAST}", phi=f"phi - {LAST - FIRST}", spark_due=True,
        imep=f"work/{SWEPT!r}", **dict.fromkeys(sums, 0.0),
    )  # fmt: skip
    part.event("compression_ends", "stroke != 1 and phi >= 0 and phi < 180", stroke=1)
    part.event("expansion_ends", "stroke != 2 and phi >= 180 and phi < 360", stroke=2, inject_due=True)
    part.event("exhaust_ends", "stroke != 3 and phi >= 360 and phi < 540", stroke=3)
    part.event("intake_ends", "stroke != 0 and (phi >= 540 or phi < 0)", stroke=0)


def _outputs(part: Part) -> None:
    part.output(
        "w_in", "intake_flow", "g/s", "from the intake manifold: gas, its enthalpy, fuel and burnt gas"
    )
    part.output("h_in_flow", "intake_h", "W")
    part.output("f_in", "intake_f", "g/s")
    part.output("b_in", "intake_b", "g/s")
    part.output("w_ex", "exhaust_flow", "g/s", "to the exhaust manifold")
    part.output("h_ex", "exhaust_h - exhaust_heat", "W")
    part.output("f_ex", "exhaust_f", "g/s")
    part.output("b_ex", "exhaust_b", "g/s")
    part.output("torque", "pull", "N*m")
    part.output("pressure", "p", "kPa")
    part.output("temperature", "T", "K")
    part.output("crank_angle", "phi", "deg")
    part.output("burnt_part", "burnt", "1")
    part.output("mixture", "lambda_trapped", "1", "of the last cycle")
    part.output("mean_pressure", "imep", "kPa")
    part.output("half_burnt", "half_at", "deg")
    part.output("knock", "knock_last", "1")
    part.output("trapped", "charge", "g")
