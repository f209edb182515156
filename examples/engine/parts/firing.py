"""From the injector to burnt gas: injection, ignition, combustion, knocking. [H], [E]: see `cylinder`."""

from __future__ import annotations

from math import log

from parts.gas import HEATING, STOICHIOMETRIC
from parts.part import Part


def injection(part: Part) -> None:
    """Into the intake port. Some fuel wets its wall and evaporates slowly (Aquino's model, [E] chapter 7)."""
    part.parameter(
        "injector",
        6.0,
        "injection: g/s; part that wets the wall, and time in which it evaporates, s ([E] chapter 7)",
    )
    part.parameter("wetting", 0.3)
    part.parameter("drying", 0.1)
    part.variable(
        "injecting",
        False,
        "injection: going on, and due in this cycle",
    )
    part.variable("inject_due", False)
    part.local("spray", "injector if injecting else 0")
    part.event(
        "injection_starts", "inject_due and phi >= inject", injecting=True, inject_due=False, injected=0.0
    )
    part.event("injection_ends", "injecting and injected >= fuel/1000", injecting=False)
    part.event("injection_is_cut_off", "injecting and phi >= intake_closing", injecting=False)


def ignition(part: Part) -> None:
    part.parameter(
        "battery", 14.0, "ignition coil: V, Ω, H, A, and the angle for which it is charged (choices)"
    )
    part.parameter("resistance", 0.5)
    part.parameter("inductance", 3e-3)
    part.parameter("most_current", 7.5)
    part.parameter("dwell", 40.0)
    part.variable(
        "spark_due", False, "ignition: due in this cycle; the coil is charged, and its current limited"
    )
    part.variable("charging", False)
    part.variable("limited", False)
    part.variable("ignitable", True, "whether the mixture can burn")
    part.event("coil_charges", "spark_due and phi >= spark - dwell", charging=True, spark_due=False)
    part.event("coil_is_full", "charging and not limited and current >= most_current", limited=True)
    part.parameter(
        "richest",
        14.6 / 25,
        "air to fuel, relative to stoichiometric, between which a mixture burns ([H] chapter 9)",
    )
    part.parameter("leanest", 1.6)
    part.local("air", "m - f - b")
    needed = f"{STOICHIOMETRIC}*f"
    part.event(
        "mixture_burns",
        f"not ignitable and stroke == 0 and air > richest*{needed} and air < leanest*{needed}",
        ignitable=True,
    )
    part.event(
        "mixture_cannot_burn",
        f"ignitable and stroke == 0 and (air < richest*{needed} or air > leanest*{needed})",
        ignitable=False,
    )


def combustion(part: Part) -> None:
    """Wiebe's function ([H] chapter 9, with a = 6.9, so that 99.9 % are burnt at the end, and m = 2)."""
    part.parameter("heating", HEATING, "combustion: J/g, its length in degrees, and Wiebe's factor")
    part.parameter("length", 55.0)
    part.parameter("wiebe", -log(0.001))
    part.variable("burning", False, "combustion: going on, since which angle, and limited by air")
    part.variable("burn_from", -20.0)
    part.variable("short_of_air", False)
    part.variable("phase", 3, "combustion: parts of 10, 50 and 90 % reached")
    part.variable("half_at", 10.0, "at which angle one half was burnt")
    part.local("y", "max((phi - burn_from)/length, 0)", "combustion: Wiebe's function, and fuel, g/s")
    part.local("left", "exp(-wiebe*y**3)")
    part.local("burnt", "1 - left if burning else (0 if phi < 0 else 1)")
    part.local("ready", f"air/{STOICHIOMETRIC} if short_of_air else f")
    part.local("burns", "ready*3*wiebe*y**2*(speed*180/pi)/length if burning else 0")
    needed = f"{STOICHIOMETRIC}*f"
    part.event(
        "spark_fires",
        "charging and phi >= spark",
        charging=False, limited=False, current=0.0, burning="ignitable", burn_from="phi", phase=0,
        short_of_air=f"air < {needed}",
    )  # fmt: skip
    part.event("burnt_10", "burning and phase == 0 and burnt >= 0.1", phase=1)
    part.event("burnt_50", "burning and phase == 1 and burnt >= 0.5", phase=2, half_at="phi")
    part.event("burnt_90", "burning and phase == 2 and burnt >= 0.9", phase=3)
    part.event("burning_ends", "burning and phi >= burn_from + length", burning=False)


def knock(part: Part) -> None:
    """The integral of Livengood and Wu, with Douaud and Eyzat's delay ([H] chapter 9); octane number 98."""
    part.parameter("octane", 0.98)
    part.variable(
        "listening",
        False,
        "knock: the window in which it can happen is open, it has happened, and the last integral",
    )
    part.variable("knocked", False)
    part.variable("knock_last", 0.0)
    part.local(
        "unburnt", f"T_ref*(p/p_ref)**{1 - 1 / 1.32!r}", "knock: K of the gas that has not burnt yet, and 1/s"
    )
    part.local("delay", "17.68e-3*octane**3.402*(p/101.325)**(-1.7)*exp(3800/unburnt)")
    part.local("nears", "1/delay if listening else 0")
    part.event(
        "knock_window_opens",
        "not listening and phi >= -40 and phi < 0 and not burning",
        listening=True,
        knocking=0.0,
        knocked=False,
    )
    part.event(
        "knock_window_closes",
        "listening and (phi >= 60 or burning and burnt >= 0.9)",
        listening=False,
        knock_last="knocking",
    )
    part.event("knocks", "listening and burning and not knocked and knocking >= 1", knocked=True)
