"""The turbocharger: compressor with its bypass, turbine with its waste-gate. [E] and [G]: see `air_path`."""

from __future__ import annotations

from parts.gas import AIR, HOT, restriction
from parts.part import Part


def compressor(part: Part) -> None:
    """Head and flow on an ellipse ([E] chapter 8): the most head without flow, the most flow without head."""
    part.parameter(
        "wheel",
        0.050,
        "compressor: diameter, m; head and flow coefficients; efficiency ([E] chapter 8, [G] chapter 2)",
    )
    part.parameter("head_most", 1.35)
    part.parameter("flow_most", 0.15)
    part.parameter("efficiency_c", 0.70)
    part.variable(
        "surging", False, "compressor: no flow, because of too high a pressure; drives the turbine; too fast"
    )
    part.variable("windmilling", False)
    part.variable("too_fast", False)
    part.local("tip", "1000*n*wheel/2", "compressor: m/s, head coefficient, g/s, K")
    part.local("lift_c", "(p_boost/p_0)**0.2857 - 1")
    part.local("head", "2*1005*T_0*lift_c/tip**2")
    part.local("filled", "0 if surging else (1 if windmilling else sqrt(max(1 - (head/head_most)**2, 1e-6)))")
    part.local("w_c", "filled*flow_most*1000*p_0/(R*T_0)*pi/4*wheel**2*tip")
    part.local("warmer", "T_0*lift_c/efficiency_c")
    part.local("h_c", f"h_0 + {1.005!r}*warmer")
    part.local("power_c", "w_c*(h_c - h_0)")
    part.event("surge_begins", "not surging and head > head_most", surging=True)
    part.event("surge_ends", "surging and head < 0.98*head_most", surging=False)
    part.event("windmilling_begins", "not windmilling and head < 0", windmilling=True)
    part.event("windmilling_ends", "windmilling and head > 0", windmilling=False)
    part.event("turbo_gets_too_fast", "not too_fast and n > 19", too_fast=True)
    part.event("turbo_gets_slower", "too_fast and n < 18.5", too_fast=False)
    part.parameter(
        "bypass",
        200.0,
        "mm², kPa: recirculation valve of the compressor, and the pressures at which it opens and closes",
    )
    part.parameter("bypass_opens", 60.0)
    part.parameter("bypass_closes", 40.0)
    part.variable("bypassed", False)
    part.event("bypass_valve_opens", "not bypassed and p_boost - p_im > bypass_opens", bypassed=True)
    part.event("bypass_valve_closes", "bypassed and p_boost - p_im < bypass_closes", bypassed=False)
    restriction(
        part, "round", area="bypass", before=("p_boost", "T_boost"), behind=("p_0", "T_0"), gamma=AIR,
        enabled="bypassed",
    )  # fmt: skip
    part.local("w_round", "round_flow if bypassed else 0")
    part.local("h_round", "w_round*(h_0 if round_back else h_boost)")


def turbine(part: Part) -> None:
    """A nozzle, an efficiency over the ratio of blade to gas speed ([E] chapter 8), and a flap around it."""
    part.parameter(
        "nozzle", 260.0, "turbine: mm²; diameter, m; best efficiency and speed ratio ([E] chapter 8)"
    )
    part.parameter("wheel_t", 0.047)
    part.parameter("efficiency_t", 0.72)
    part.parameter("best_ratio", 0.65)
    part.parameter(
        "gate_area",
        220.0,
        "mm²: waste-gate of 20 mm with a discharge coefficient of 0.7; s and 1/s: how fast it is",
    )
    part.parameter("flap_lag", 0.1)
    part.parameter("flap_rate", 5.0)
    exhaust = {"before": ("p_em", "T_em"), "behind": ("p_tail", "T_tail"), "gamma": HOT}
    restriction(part, "wheel", area="nozzle", **exhaust)
    restriction(part, "gate_way", area="(gate_area*flap)", **exhaust)
    part.local(
        "drop",
        "1 - (p_tail/max(p_em, p_tail))**0.25",
        "turbine: specific work, J/g, at most; its speed, m/s; W",
    )
    part.local("ideal", "(C0 + R + C1*T_em)*T_em*drop")
    part.local("jet", "sqrt(2000*ideal + 1)")
    part.local("blade", "1000*n*wheel_t/2/jet")
    part.local("efficiency", "efficiency_t*max(1 - ((blade - best_ratio)/best_ratio)**2, 0.1)")
    part.local("gained", "0 if wheel_back else efficiency*ideal")
    part.local("power_t", "wheel_flow*gained")
    for name in ("wheel", "gate_way"):
        part.local(f"h_{name}", f"{name}_flow*(h_tail if {name}_back else h_em)")
    part.local(
        "out_em", "wheel_flow + gate_way_flow", "g/s: out of the exhaust manifold, and what it carries"
    )
    for kind in ("f", "b"):
        part.local(f"{kind}_em_part", f"{kind}_em_mass/m_em")
    part.local(
        "f_out",
        "(0 if wheel_back else wheel_flow*f_em_part) + (0 if gate_way_back else gate_way_flow*f_em_part)",
    )
    part.local(
        "b_out",
        "wheel_flow*(b_tail_part if wheel_back else b_em_part)"
        " + gate_way_flow*(b_tail_part if gate_way_back else b_em_part)",
    )


def turbocharger(part: Part) -> None:
    part.parameter("inertia", 3.0e-5, "turbocharger: kg·m²; mechanical efficiency ([E] chapter 8)")
    part.parameter("bearings", 0.95)
    part.state("n", "(bearings*power_t - power_c)/(inertia*n*1e6)", 9.5, "turbocharger: 1000 rad/s")
