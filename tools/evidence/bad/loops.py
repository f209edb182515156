"""Algebraic loops, constraints, step negotiation, nesting and error control."""

from __future__ import annotations

from tools.evidence.bad.case import Case

LOOP = """
a = up.Function(inputs=["u"], outputs={"y": "FORMULA"})
b = up.Function(inputs=["u"], outputs={"y": "u"})
loop = up.Scenario({"a": a, "b": b}, {"a.u": "b.y", "b.u": "a.y"})
"""
STIFF = """
class Plain:
    def __init__(self, name, start, parameters): self.u = 0.0
    def get(self, port): return self.u
    def set(self, port, coefficients): self.u = coefficients[0]
    def advance(self, t, to, early): return to
plain = up.PythonUnit(Plain, (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT)))
ode = up.Ode({"x": "u - x"}, inputs=["u"])
pair = up.Scenario({"plain": plain, "ode": ode}, {"plain.u": "ode.x", "ode.u": "plain.y"})
"""
EARLY = (
    STIFF.replace(
        'plain = up.PythonUnit(Plain, (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT)))',
        'plain = up.PythonUnit(Plain, (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT)), '
        "abilities=[up.Ability.EARLY_RETURN])",
    )
    .replace(
        'pair = up.Scenario({"plain": plain, "ode": ode}', 'pair = up.Scenario({"plain": plain, "ode": plain}'
    )
    .replace('{"plain.u": "ode.x", "ode.u": "plain.y"}', '{"plain.u": "ode.y", "ode.u": "plain.y"}')
)
MASS = """
mass = up.Ode({"x": "v", "v": "F"}, inputs=["F"])
linked = up.Scenario({"a": mass, "b": mass}, {"a.F": "f", "b.F": "-f"}, inputs=["f"])
"""

CASES = (
    Case(
        "an algebraic loop without a solution",
        ("python", LOOP.replace("FORMULA", "u*u + 1") + "up.simulate(loop, step=0.1, until=1.0)"),
        ("a.u", "b.y", "did not"),
        exit=4,
    ),
    Case(
        "a loop that substitution does not solve",
        (
            "python",
            LOOP.replace("FORMULA", "3 - 2*u")
            + "up.simulate(loop, step=0.1, until=1.0, coupling=up.Jacobi(loops=up.FixedPoint()))",
        ),
        ("a.u", "b.y"),
        exit=4,
    ),
    Case(
        "strong coupling of a unit that cannot be set back",
        ("python", STIFF + "up.simulate(pair, step=0.1, until=1.0, coupling=up.Iterated())"),
        ("plain", "set back"),
    ),
    Case(
        "error control over a unit that cannot be set back",
        ("python", STIFF + "up.simulate(pair, until=1.0, pace=up.ErrorControl())"),
        ("plain", "set back"),
    ),
    Case(
        "two units that may stop early and cannot be set back",
        ("python", EARLY + "up.simulate(pair, step=0.1, until=1.0, coupling=up.Negotiated())"),
        ("plain", "ode", "set back"),
    ),
    Case(
        "a constraint that does not react to its input",
        (
            "python",
            MASS
            + 'up.simulate(linked, step=0.1, until=1.0, coupling=up.Constrained({"f": "a.x - a.x + 1"}))',
        ),
        ("f",),
        exit=4,
    ),
    Case(
        "a constraint on an input that is no input",
        (
            "python",
            MASS + 'up.simulate(linked, step=0.1, until=1.0, coupling=up.Constrained({"g": "a.x - b.x"}))',
        ),
        ("'g'",),
    ),
    Case(
        "a rate of a unit that does not exist",
        ("python", MASS + 'up.simulate(linked, step=0.1, until=1.0, coupling=up.MultiRate({"c": 10}))'),
        ("'c'",),
    ),
    Case(
        "a coupling that does not exist",
        ("python", MASS + 'up.simulate(linked, step=0.1, until=1.0, coupling="gaus_seidel")'),
        ("unknown coupling 'gaus_seidel'", "Did you mean 'gauss_seidel'"),
    ),
    Case(
        "a coupling inside another that does not go there",
        ("python", MASS + "up.simulate(linked, step=0.1, until=1.0, coupling=up.Iterated(up.Negotiated()))"),
        ("Iterated", "Jacobi or GaussSeidel"),
    ),
    Case(
        "files that nest each other in a circle",
        ("check", "a.toml"),
        ("a.toml", "b.toml"),
        files={
            "a.toml": '[units.b]\nscenario = "b.toml"\n[master]\nstep = 0.1\n[run]\nuntil = 1.0\n',
            "b.toml": '[units.a]\nscenario = "a.toml"\n[master]\nstep = 0.1\n',
        },
    ),
    Case(
        "a monolith of a unit that is no equations",
        ("python", STIFF + "pair.monolith()"),
        ("plain",),
    ),
)
