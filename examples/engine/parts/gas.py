"""The working gas and how it flows: what volumes and restrictions of all parts have in common.

The unit system is g, L, K, s, with kPa for pressures and mm² for areas. It is coherent: kPa·L = J, and
mm²·kPa/(m/s) = g/s.

All gas (air, fuel vapour, burnt gas) has one gas constant and one specific heat that rises with temperature:
c_v = C0 + C1·T, so that the ratio of specific heats is 1.40 at 300 K (air) and 1.25 at 2500 K (burnt mixture;
Heywood, Internal Combustion Engine Fundamentals, chapter 4). Inner energy is then C0·T + C1·T²/2, and the
temperature is the solution of a quadratic equation, so that energy is kept exactly. Liquid fuel has none.
"""

from __future__ import annotations

from parts.part import Part

R = 0.287
"""J/(g·K): air."""
C1 = (R / 0.25 - R / 0.40) / (2500 - 300)
C0 = R / 0.40 - 300 * C1
"""J/(g·K²) and J/(g·K)."""
AIR, HOT = 1.40, 4 / 3
"""Ratios of specific heats that restrictions assume, for cool and for hot gas."""
STOICHIOMETRIC = 14.6
"""g of air for a g of petrol (Heywood, appendix D)."""
HEATING = 43.0e3
"""J/g: the lower heating value of petrol less what evaporating takes, and times 0.98 for what is not burnt
completely (Heywood, chapter 3)."""


def energy(mass: float, temperature: float) -> float:
    """J: the inner energy of gas."""
    return mass * (C0 * temperature + C1 * temperature**2 / 2)


def gas_parameters(part: Part) -> None:
    """The constants of the gas as parameters."""
    part.parameter("R", R, "the gas: J/(g·K); c_v = C0 + C1*T")
    part.parameter("C0", C0)
    part.parameter("C1", C1)


def temperature(mass: str, inner: str) -> str:
    """The temperature of gas with this inner energy."""
    return f"(sqrt(C0**2 + 2*C1*{inner}/{mass}) - C0)/C1"


def enthalpy(temperature: str) -> str:
    """J/g."""
    return f"(C0 + R + C1*{temperature}/2)*{temperature}"


def restriction(
    part: Part,
    name: str,
    *,
    area: str,
    before: tuple[str, str],
    behind: tuple[str, str],
    gamma: float,
    enabled: str = "",
) -> None:
    """An isentropic nozzle between two volumes (Heywood, appendix C): locals `NAME_flow` and `NAME_back`.

    `before` and `behind` are pressure and temperature of both sides. The flow is choked below the critical
    pressure ratio. Above a ratio of 0.95 it is linear in the pressure difference, because the formula has an
    infinite slope at zero, which no real restriction has. Direction and regime are variables that events
    change, so that a solver meets smooth equations in between. Without `enabled` nothing is watched.
    """
    critical = (2 / (gamma + 1)) ** (gamma / (gamma - 1))
    low, high = 1 / gamma, (gamma - 1) / gamma
    factor = 2 / high
    weak = 0.95
    choked_flow = critical**low * (factor * (1 - critical**high)) ** 0.5
    weak_slope = weak**low * (factor * (1 - weak**high)) ** 0.5 / (1 - weak)
    part.variable(f"{name}_back", False, f"{name}: the flow goes back, is choked, is weak")
    part.variable(f"{name}_choked", False)
    part.variable(f"{name}_weak", False)
    part.local(
        f"{name}_up", f"{behind[0]} if {name}_back else {before[0]}", f"{name}: a nozzle, with its regimes"
    )
    part.local(f"{name}_down", f"{before[0]} if {name}_back else {behind[0]}")
    part.local(f"{name}_hot", f"{behind[1]} if {name}_back else {before[1]}")
    part.local(f"{name}_ratio", f"{name}_down/{name}_up")
    part.local(
        f"{name}_psi",
        f"{choked_flow!r} if {name}_choked else ({weak_slope!r}*(1 - {name}_ratio) if {name}_weak else "
        f"{name}_ratio**{low!r}*sqrt({factor!r}*max(1 - {name}_ratio**{high!r}, 0)))",
    )
    part.local(
        f"{name}_flow",
        f"(-1 if {name}_back else 1)*{area}*{name}_up/sqrt(1000*R*{name}_hot)*{name}_psi",
    )
    guard = f"{enabled} and " if enabled else ""
    part.event(
        f"{name}_reverses",
        f"{guard}not {name}_back and {behind[0]} > {before[0]}",
        **{f"{name}_back": True},
    )
    part.event(
        f"{name}_returns", f"{guard}{name}_back and {before[0]} > {behind[0]}", **{f"{name}_back": False}
    )
    for event, now, sign, limit, then in (
        ("chokes", f"not {name}_choked", "<", critical, {f"{name}_choked": True}),
        ("unchokes", f"{name}_choked", ">", critical, {f"{name}_choked": False}),
        ("weakens", f"not {name}_weak", ">", weak, {f"{name}_weak": True}),
        ("strengthens", f"{name}_weak", "<", weak, {f"{name}_weak": False}),
    ):
        part.event(f"{name}_{event}", f"{guard}{now} and {name}_down {sign} {limit!r}*{name}_up", **then)
