"""Bad adaptations in the baseSA language."""

from __future__ import annotations

from tools.evidence.bad.case import Case

_HEAD = (
    "semantic adaptation reactive moore S s\n"
    "for inner fmu A a with input ports u (m) with output ports y (m)\n"
)
_BACK = "control rules { save_state(a); do_step(a, t, H); rollback(a); return H; }"
_SCENARIO = """upbeat = 1
units.s.sa = "bad.sa"
units.s.units.a = { kind = "python", class = "plain:Plain", inputs = ["u"], outputs = ["y"] }
master = { step = 0.1, coupling = "gauss_seidel" }
run.until = 1.0
"""
_PLAIN = """class Plain:
    def set(self, port, coefficients):
        self.u = coefficients[0]

    def get(self, port):
        return 0.0

    def advance(self, t, to, early):
        return to
"""


def _bad(what: str, text: str, *says: str, more: dict[str, str] | None = None) -> Case:
    return Case(what, ("adapt", "bad.sa"), says, files={"bad.sa": text, **(more or {})})


CASES = (
    _bad(
        "an adaptation with a port that does not exist",
        f"{_HEAD}output ports z <- a.x",
        *("line 3, column 19", "'a' has no output 'x'", "y"),
    ),
    _bad(
        "an adaptation that contains itself",
        "semantic adaptation S s\nfor fmu T t\nsemantic adaptation T t\nfor fmu S s",
        *("line 1, column 1", "'S' would contain itself: S → T → S", "another type"),
    ),
    _bad(
        "adaptations that import each other",
        f"import Other\n{_HEAD}",
        *("imports form a circle", "bad.sa → Other.sa → bad.sa", "Leave out one"),
        more={"Other.sa": "import bad\n"},
    ),
    _bad(
        "an adaptation of a kind that does not exist",
        _HEAD.replace("reactive", "reactve"),
        *("line 1, column 1", "'reactve' is no kind", "Did you mean 'reactive'?"),
    ),
    _bad(
        "an adaptation between units of measure that do not fit",
        f"{_HEAD}output ports z (s) <- a.y",
        *("line 3", "'y' in m cannot be 'z' in s", "Correct one of the units"),
    ),
    _bad(
        "an adaptation with a loop that might not end",
        f"{_HEAD}control rules {{ for (var i in 0 .. a.y) {{ }} return H; }}",
        *("line 3", "the number of rounds must be fixed", "Use a number or a parameter"),
    ),
    _bad(
        "an adaptation that does not parse",
        f"{_HEAD}control rules {{ retrun H; }}",
        *("line 3, column 24", "'H' cannot stand here"),
    ),
    Case(
        "an adaptation that sets back a unit without rollback",
        ("run", "s.toml", "--allow-python"),
        ("line 3, column 17", "'a' cannot be set back to an earlier state", 'adapt = ["replay"]'),
        files={
            "s.toml": _SCENARIO,
            "plain.py": _PLAIN,
            "bad.sa": f"{_HEAD}{_BACK}".replace(" (m)", ""),
        },
    ),
)
