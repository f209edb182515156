"""The air path: turbocharger, heat exchanger, throttle, both manifolds and the catalyst.

Mean-value models: volumes of ideal gas with balances of mass and energy, and restrictions between them. The
torque of the crankshaft is put together here, too.

Sources of numbers: [H] and [E] as in `cylinder`, of [E] chapter 7 (mean-value models of the air path and of
exhaust temperatures) and chapter 8 (turbochargers); [G] L. Guzzella, C. H. Onder, Introduction to Modeling
and Control of Internal Combustion Engine Systems, 2010, chapter 2 (mean-value models). What has no source
is a choice for two litres.
"""

from __future__ import annotations

from math import pi

from parts.gas import AIR, HOT, STOICHIOMETRIC, energy, enthalpy, gas_parameters, restriction, temperature
from parts.geometry import SWEPT
from parts.part import Part
from parts.turbo import compressor, turbine, turbocharger

CYLINDERS = ("1", "2", "3", "4")
AMBIENT, OUTSIDE = 101.3, 298.0
"""kPa and K."""
CLOSED, WIDE = 7.0, 88.0
"""Degrees of the throttle plate."""
STICKING, SLIDING = 97.0, 15.0
"""kPa, and kPa for a thousand turns per minute: see `friction`."""


def air_path() -> Part:
    part = Part("air_path", "The air path around the cylinders, and the torque of the crankshaft.")
    for i in CYLINDERS:
        part.input(
            f"w_in{i}",
            "g/s",
            f"cylinder {i}: gas, its enthalpy, fuel and burnt gas it takes and gives; torque",
        )
        part.input(f"h_in{i}", "W")
        part.input(f"f_in{i}", "g/s")
        part.input(f"b_in{i}", "g/s")
        part.input(f"w_ex{i}", "g/s")
        part.input(f"h_ex{i}", "W")
        part.input(f"f_ex{i}", "g/s")
        part.input(f"b_ex{i}", "g/s")
        part.input(f"torque{i}", "N*m")
    part.input("throttle", "deg", "what the controller wants: throttle plate, waste-gate (0 closed, 1 open)")
    part.input("gate", "1")
    part.input("speed", "rad/s", "crankshaft")
    gas_parameters(part)
    part.parameter("p_0", AMBIENT, "ambient air: kPa, K")
    part.parameter("T_0", OUTSIDE)
    _volumes(part)
    compressor(part)
    _intercooler(part)
    _throttle(part)
    turbine(part)
    _tail(part)
    turbocharger(part)
    _manifolds(part)
    _sensors(part)
    _outputs(part)
    return part


def _sum(name: str) -> str:
    return "(" + " + ".join(f"{name}{i}" for i in CYLINDERS) + ")"


def _volumes(part: Part) -> None:
    for name, volume, about in (
        ("boost", 2.5, "L: pipe behind the compressor"),
        ("cool", 4.0, "L: heat exchanger and pipe behind it"),
        ("im", 3.5, "L: intake manifold and its runners"),
        ("em", 1.8, "L: exhaust manifold and its runners"),
        ("tail", 8.0, "L: catalyst and silencer"),
    ):
        part.parameter(f"V_{name}", volume, about)
        part.local(f"T_{name}", temperature(f"m_{name}", f"U_{name}"), f"{name}: K, kPa")
        part.local(f"p_{name}", f"m_{name}*R*T_{name}/V_{name}")
    part.local("h_0", enthalpy("T_0"), "J/g")
    for name in ("boost", "cool", "im", "em", "tail"):
        part.local(f"h_{name}", enthalpy(f"T_{name}"))


def _intercooler(part: Part) -> None:
    part.parameter(
        "core", 1000.0, "heat exchanger: mm²; effectiveness; J/K, and W/K to the outside ([G] chapter 2)"
    )
    part.parameter("effectiveness", 0.75)
    part.parameter("core_holds", 2500.0)
    part.parameter("core_cools", 250.0)
    restriction(
        part, "core", area="core", before=("p_boost", "T_boost"), behind=("p_cool", "T_cool"), gamma=AIR
    )
    part.local(
        "q_core", "0 if core_back else effectiveness*core_flow*1.005*(T_boost - T_core)", "heat exchanger: W"
    )
    part.local("h_core", "core_flow*(h_cool if core_back else h_boost)")


def _throttle(part: Part) -> None:
    part.parameter(
        "bore",
        pi / 4 * 60.0**2,
        "throttle: mm² of a bore of 60 mm, and what always is open ([G] chapter 2)",
    )
    part.parameter("closed", CLOSED)
    part.parameter("always", 5.0)
    part.parameter("plate_lag", 0.04, "s and degrees/s: how fast the plate is (choice)")
    part.parameter("plate_rate", 400.0)
    part.local(
        "plate_area",
        "always + 0.8*bore*(1 - cos(plate*pi/180)/cos(closed*pi/180))",
        "throttle: mm²",
    )
    restriction(
        part, "plate", area="plate_area", before=("p_cool", "T_cool"), behind=("p_im", "T_im"), gamma=AIR
    )
    part.local("h_plate", "plate_flow*(h_im if plate_back else h_cool)")
    part.local("f_plate", "plate_flow*f_im_part if plate_back else 0")
    part.local("b_plate", "plate_flow*b_im_part if plate_back else 0")
    part.local("f_im_part", "f_im_mass/m_im")
    part.local("b_im_part", "b_im_mass/m_im")
    _limited(part, "plate", "throttle", "plate_lag", "plate_rate")
    _limited(part, "flap", "gate", "flap_lag", "flap_rate")


def _limited(part: Part, name: str, wanted: str, lag: str, rate: str) -> None:
    """An actuator with a lag and a highest rate."""
    part.variable(f"{name}_rising", False, f"{name} moves as fast as it can")
    part.variable(f"{name}_falling", False)
    part.local(f"{name}_wish", f"({wanted} - {name})/{lag}")
    part.local(f"{name}_moves", f"{rate} if {name}_rising else (-{rate} if {name}_falling else {name}_wish)")
    for flag, sign, word in (("rising", "", "rises"), ("falling", "-", "falls")):
        part.event(
            f"{name}_{word}_fast",
            f"not {name}_{flag} and {sign}{name}_wish > {rate}",
            **{f"{name}_{flag}": True},
        )
        part.event(
            f"{name}_{word}_freely",
            f"{name}_{flag} and {sign}{name}_wish < {rate}",
            **{f"{name}_{flag}": False},
        )


def _tail(part: Part) -> None:
    part.parameter(
        "pipe", 750.0, "silencer: mm², for a loss of a few kPa; W/K: to the outside, J/K, catalyst to gas"
    )
    part.parameter("tail_cools", 3.0)
    part.parameter("brick_holds", 1000.0)
    part.parameter("brick", 60.0)
    restriction(part, "pipe", area="pipe", before=("p_tail", "T_tail"), behind=("p_0", "T_0"), gamma=HOT)
    part.local("h_pipe", "pipe_flow*(h_0 if pipe_back else h_tail)")
    part.local("b_tail_part", "b_tail_mass/m_tail")
    part.local("q_brick", "brick*(T_tail - T_brick)")
    part.variable("brick_hot", False, "the catalyst is too hot")
    part.event("catalyst_gets_hot", "not brick_hot and T_brick > 1200", brick_hot=True)
    part.event("catalyst_gets_cool", "brick_hot and T_brick < 1150", brick_hot=False)


def _manifolds(part: Part) -> None:
    part.parameter(
        "manifold_takes", 14.0, "exhaust manifold: W/K from its gas and to the outside; J/K ([E] chapter 7)"
    )
    part.parameter("manifold_cools", 7.0)
    part.parameter("manifold_holds", 2500.0)
    part.local("q_em", "manifold_takes*(T_em - T_manifold)", "exhaust manifold: W")

    def volume(
        name: str, pressure: float, kelvin: float, size: float, mass: str, inner: str, about: str
    ) -> None:
        start = pressure * size / (0.287 * kelvin)
        part.state(f"m_{name}", mass, round(start, 6), about)
        part.state(f"U_{name}", inner, round(energy(start, kelvin), 6))

    volume(
        "boost",
        148.0,
        345.0,
        2.5,
        "w_c - core_flow - w_round",
        "w_c*h_c - h_core - h_round",
        "behind the compressor: g, J",
    )
    volume(
        "cool",
        145.0,
        312.0,
        4.0,
        "core_flow - plate_flow",
        "h_core - q_core - h_plate",
        "behind the heat exchanger",
    )
    volume(
        "im",
        125.0,
        318.0,
        3.5,
        f"plate_flow - {_sum('w_in')}",
        f"h_plate - {_sum('h_in')}",
        "intake manifold",
    )
    part.state("f_im_mass", f"f_plate - {_sum('f_in')}", 0.0)
    part.state("b_im_mass", f"b_plate - {_sum('b_in')}", 0.0)
    volume(
        "em",
        135.0,
        1050.0,
        1.8,
        f"{_sum('w_ex')} - out_em",
        f"{_sum('h_ex')} - h_wheel - h_gate_way - q_em",
        "exhaust manifold",
    )
    part.state("f_em_mass", f"{_sum('f_ex')} - f_out", 0.0)
    part.state("b_em_mass", f"{_sum('b_ex')} - b_out", 0.8)
    volume(
        "tail",
        106.0,
        900.0,
        8.0,
        "out_em - pipe_flow",
        "h_wheel + h_gate_way - power_t - h_pipe - q_brick",
        "catalyst",
    )
    part.state("b_tail_mass", "b_out - (0 if pipe_back else pipe_flow*b_tail_part)", 3.0)
    part.state("plate", "plate_moves", 25.0, "actuators: degrees, part")
    part.state("flap", "flap_moves", 0.3)
    part.state(
        "T_core",
        "(q_core - core_cools*(T_core - T_0))/core_holds",
        300.0,
        "K: heat exchanger, exhaust manifold, catalyst",
    )
    part.state("T_manifold", "(q_em - manifold_cools*(T_manifold - T_0))/manifold_holds", 800.0)
    part.state("T_brick", "(q_brick - tail_cools*(T_brick - T_0))/brick_holds", 900.0)


def _sensors(part: Part) -> None:
    part.parameter(
        "film_lag", 0.02, "s: hot-film air meter, which shows nothing while gas flows back (choice)"
    )
    part.variable("meter_blind", False)
    part.event("meter_goes_blind", "not meter_blind and core_flow < 0", meter_blind=True)
    part.event("meter_sees_again", "meter_blind and core_flow > 0", meter_blind=False)
    part.variable("over_boost", False, "the intake manifold has too much pressure")
    part.event("over_boost_begins", "not over_boost and p_im > 220", over_boost=True)
    part.event("over_boost_ends", "over_boost and p_im < 210", over_boost=False)
    part.state("meter", "((0 if meter_blind else w_c) - meter)/film_lag", 40.0, "g/s: air meter")
    part.local(
        "air_em",
        "m_em - f_em_mass - b_em_mass",
        "g: air in the exhaust manifold, and air to fuel before it burnt",
    )
    part.local(
        "lambda_em",
        f"(air_em + b_em_mass*{STOICHIOMETRIC / (1 + STOICHIOMETRIC)!r})"
        f"/({STOICHIOMETRIC}*(f_em_mass + b_em_mass/{1 + STOICHIOMETRIC}))",
    )


def friction(thousands: float) -> float:
    """kPa that rubbing and auxiliaries take at so many thousand turns per minute, without gas exchange.

    For four-cylinder engines of 0.8 to 2 L that are motored with open throttle, [H] chapter 13 has
    0.97 + 0.15 n + 0.05 n² bar. That is all that motoring takes: it contains the work to pump gas through the
    valves. Here that work is in ∮ p dV already, and must not count twice. The terms have different reasons:
    boundary friction does not depend on speed, hydrodynamic friction is proportional to it, and what flowing
    gas loses to its square. So the last term is left out. A check: motored with open throttle, the gas
    exchange of a cylinder here takes 17 kPa at 2000 and 32 at 3000 turns per minute; the last term has 20 and
    45.
    """
    return STICKING + SLIDING * thousands


def _outputs(part: Part) -> None:
    litres = 4 * SWEPT
    part.local("rpm", "speed*60/(2*pi)", "friction without gas exchange ([H] chapter 13): kPa, N·m")
    part.local("friction", f"{STICKING} + {SLIDING}*rpm/1000")
    part.local("drag", f"friction*{litres / (4 * pi)!r}")
    part.local("shaft", f"{_sum('torque')} - drag")
    for name in ("im", "em"):
        part.output(f"p_{name}_out", f"p_{name}", "kPa", f"{name}: the manifold")
        part.output(f"T_{name}_out", f"T_{name}", "K")
        part.output(f"f_{name}_out", f"f_{name}_part", "1")
        part.output(f"b_{name}_out", f"b_{name}_part", "1")
    part.output("torque", "shaft", "N*m", "crankshaft: all cylinders less friction")
    part.output("power", "shaft*speed", "W")
    part.output("load", f"shaft*{4 * pi / litres!r}", "kPa", "as mean effective pressure")
    part.output("p_boost_out", "p_boost", "kPa", "before the throttle")
    part.output("T_boost_out", "T_boost", "K")
    part.output("p_cool_out", "p_cool", "kPa")
    part.output("p_tail_out", "p_tail", "kPa")
    part.output("T_catalyst", "T_brick", "K")
    part.output("turbo", "1000*n", "rad/s")
    part.output("air_meter", "meter", "g/s")
    part.output("oxygen", "lambda_em", "1", "what the lambda sensor shows")
    part.output("w_compressor", "w_c", "g/s", "flows")
    part.output("w_throttle", "plate_flow", "g/s")
    part.output("w_turbine", "wheel_flow", "g/s")
    part.output("w_gate", "gate_way_flow", "g/s")
    part.output("plate_at", "plate", "deg")
    part.output("flap_at", "flap", "1")
    part.output("w_tail", "pipe_flow", "g/s")
