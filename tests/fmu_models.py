"""What the descriptions of the FMUs in tests/fmus say, by name; and exact answers where there are some."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt


@dataclass(frozen=True)
class Var:
    """A variable; its value reference is its position in the model. Types have FMI 3's names."""

    name: str
    causality: str = "local"
    variability: str = "continuous"
    initial: str | None = None
    start: object = None
    derivative: str | None = None
    unit: str | None = None
    type: str = "Float64"
    items: tuple[tuple[str, int], ...] = ()
    dimensions: tuple[str, ...] = ()
    more: dict[str, object] = field(default_factory=dict)
    """Attributes of FMI 3 that only few variables have."""


@dataclass(frozen=True)
class Fmu:
    """A model and what is declared of it. `depends` has the computed variables."""

    name: str
    variables: tuple[Var, ...]
    depends: dict[str, tuple[str, ...]]
    source: str = ""
    """The C source, if it has another name; `defines` are its macros."""
    defines: tuple[str, ...] = ()
    library: str = ""
    """The file name of the library, if it is not the identifier."""
    derivatives: bool = True
    adjoint: bool = False
    """FMI 3: no directional derivatives, only adjoint ones."""
    state: bool = True
    exchange: bool = True
    event_mode: bool = False
    intermediate: bool = False
    once: bool = False
    variable_step: bool = True
    indicators: tuple[str, ...] = ()
    versions: tuple[int, ...] = (2, 3)

    def position(self, name: str) -> int:
        return [variable.name for variable in self.variables].index(name)


_TIME = Var("time", "independent")


def _parameter(name: str, start: float, variability: str = "tunable", unit: str | None = None) -> Var:
    return Var(name, "parameter", variability, "exact", start, unit=unit)


def _counter(
    name: str, type: str = "Int32", causality: str = "output", start: object = 0, **more: object
) -> Var:
    return Var(name, causality, "discrete", "exact", start, type=type, more=more)


LINEAR = Fmu(
    "linear",
    (
        _TIME,
        _parameter("a", -2.0, unit="1/s"),
        _parameter("b", 1.0),
        _parameter("c", 3.0),
        _parameter("d", 0.5),
        Var("u", "input", start=0.0),
        Var("x", initial="exact", start=1.0),
        Var("der(x)", derivative="x"),
        Var("y", "output"),
    ),
    {"der(x)": ("x", "u"), "y": ("x", "u")},
)
POWER = Fmu(
    "power",
    (
        _TIME,
        Var("u", "input", start=0.0),
        Var("d", "input", start=0.0),
        Var("tau", "input", start=0.0),
        Var("i", initial="exact", start=0.0),
        Var("der(i)", derivative="i"),
        Var("w", initial="exact", start=0.0),
        Var("der(w)", derivative="w"),
        Var("theta", initial="exact", start=0.0),
        Var("der(theta)", derivative="theta"),
        Var("armature_current", "output"),
        Var("displacement", "output"),
        Var("speed", "output"),
    ),
    {
        "der(i)": ("i", "w", "u", "d"),
        "der(w)": ("i", "w", "tau"),
        "der(theta)": ("w",),
        "armature_current": ("i",),
        "displacement": ("theta",),
        "speed": ("w",),
    },
    derivatives=False,
    state=False,
)
"""The motor of the power window; of FMI 3 it is made with states that can be saved."""
WINDOW = Fmu(
    "window",
    (
        _TIME,
        Var("displacement", "input", start=0.0),
        Var("speed", "input", start=0.0),
        Var("reaction_force", "input", start=0.0),
        Var("height", "output"),
        Var("reaction_torque", "output"),
    ),
    {"height": ("displacement", "reaction_force"), "reaction_torque": ("speed", "reaction_force")},
    derivatives=False,
    state=False,
)
GAIN = Fmu(
    "gain",
    (_TIME, _parameter("k", 2.0, "fixed"), Var("u", "input", start=0.0), Var("y", "output")),
    {"y": ("u",)},
)
BALL = Fmu(
    "ball",
    (
        _TIME,
        Var("h", "output", initial="exact", start=1.0, unit="m"),
        Var("der(h)", derivative="h", unit="m/s"),
        Var("v", "output", initial="exact", start=0.0, unit="m/s", more={"reinit": "true"}),
        Var("der(v)", derivative="v"),
        _parameter("g", 9.81, "fixed"),
        _parameter("e", 0.7, "fixed"),
        _parameter("v_min", 0.1, "fixed"),
        _counter("bounces"),
        _counter("rests", "Boolean", start="false"),
    ),
    {"h": ("h",), "der(h)": ("v",), "v": ("v",), "der(v)": (), "bounces": (), "rests": ()},
    derivatives=False,
    event_mode=True,
    indicators=("h",),
)
STAIRS = Fmu(
    "stairs",
    (
        _TIME,
        _parameter("period", 0.25, "fixed"),
        _parameter("rise", 1.5, "fixed"),
        Var("y", "output", "discrete"),
        _counter("count"),
    ),
    {"y": (), "count": ()},
    derivatives=False,
    event_mode=True,
)
RELAY = Fmu(
    "relay",
    (
        _TIME,
        Var("u", "input", start=0.0),
        Var("enabled", "input", "discrete", start=1, type="Int32"),
        _parameter("level", 0.5, "fixed"),
        Var("x", "output", initial="exact", start=0.0),
        Var("der(x)", derivative="x"),
        _counter("on", "Boolean", start="false"),
        _counter("switches"),
        Var("z", "output"),
    ),
    {"x": ("x",), "der(x)": ("x",), "on": (), "switches": (), "z": ("u",)},
    derivatives=False,
    event_mode=True,
    indicators=("z",),
)
HANGING = Fmu(
    "hanging",
    (
        _TIME,
        Var("x", "output", initial="exact", start=-0.3),
        Var("der(x)", derivative="x"),
        Var("v", "output", initial="exact", start=0.0, more={"reinit": "true"}),
        Var("der(v)", derivative="v"),
        Var("x2", "input", start=0.0),
        Var("v2", "input", start=0.0),
        *(_parameter(name, 1.0, "fixed") for name in ("m", "k1", "k2", "e")),
        Var("z", "output"),
    ),
    {"x": ("x",), "der(x)": ("v",), "v": ("v",), "der(v)": ("x", "v", "x2", "v2"), "z": ("x",)},
    derivatives=False,
    event_mode=True,
    indicators=("z",),
)
SUMMER = Fmu(
    "summer",
    (
        _TIME,
        Var("sum", "output", "discrete"),
        Var("last_t", "output", "discrete"),
        Var("last_h", "output", "discrete"),
        Var("steps", "output", "discrete", type="Int32"),
    ),
    {"sum": (), "last_t": (), "last_h": (), "steps": ()},
    derivatives=False,
    exchange=False,
)
CLOCKS = Fmu(
    "clocks",
    (
        _TIME,
        Var(
            "tick",
            "input",
            "",
            type="Clock",
            more={"intervalVariability": "constant", "intervalDecimal": 0.1},
        ),
        _counter("ticks", start=None, clocks="1", previous="3", initial="calculated"),
        _counter("pre_ticks", causality="local", clocks="1"),
        Var("wait", "input", "", type="Clock", more={"intervalVariability": "countdown"}),
        _counter("waits", start=None, clocks="4", initial="calculated"),
        Var("hit", "input", "", type="Clock", more={"intervalVariability": "triggered"}),
        Var("u", "input", "discrete", start=0.0, more={"clocks": "6"}),
        Var("held", "output", "discrete", more={"clocks": "6"}),
        Var("alarm", "output", "", type="Clock", more={"intervalVariability": "triggered"}),
        _counter("told", start=None, clocks="9", initial="calculated"),
    ),
    {"ticks": ("pre_ticks",), "waits": (), "held": ("u",), "alarm": (), "told": ()},
    derivatives=False,
    event_mode=True,
    versions=(3,),
)


def _mass(name: str, other: str, x: float, v: float, *defines: str) -> Fmu:
    """A mass with its start, and inputs for the place and the velocity of the other one."""
    own, others = (0.3, 0.2) if defines else (0.2, 0.3)
    values = {"m": own, "other": others, "k1": 1.0, "k2": 1.0, "d1": 0.01, "d2": 0.01, "e": 1.0}
    variables = (
        _TIME,
        Var("x", "output", initial="exact", start=x, unit="m"),
        Var("v", "output", initial="exact", start=v, unit="m/s"),
        Var(f"x{other}", "input", start=0.0, unit="m"),
        Var(f"v{other}", "input", start=0.0, unit="m/s"),
        _counter("hits"),
        _counter("ceilings"),
        *(_parameter(key, value, "fixed") for key, value in values.items()),
    )
    return Fmu(
        name, variables, {}, source="mass", defines=defines, derivatives=False, state=False, exchange=False,
        versions=(2,),
    )  # fmt: skip


def _size(name: str, start: int) -> Var:
    more: dict[str, object] = {"min": 1, "max": 8}
    return Var(name, "structuralParameter", "fixed", "exact", start, type="UInt64", more=more)


def _matrix(name: str, start: str, rows: str, columns: str) -> Var:
    return Var(name, "parameter", "tunable", "exact", start, dimensions=(rows, columns))


SPACE = Fmu(
    "space",
    (
        _TIME,
        _size("n", 2),
        _size("m", 1),
        _size("r", 1),
        _matrix("A", "-1 0 0 -1", "n", "n"),
        _matrix("B", "1 0", "n", "m"),
        _matrix("C", "1 0", "r", "n"),
        _matrix("D", "0", "r", "m"),
        Var("u", "input", start="0", dimensions=("m",)),
        Var("x", initial="exact", start="1 2", dimensions=("n",)),
        Var("der(x)", derivative="x", dimensions=("n",)),
        Var("y", "output", dimensions=("r",)),
    ),
    {"der(x)": ("x", "u"), "y": ("x", "u")},
    derivatives=False,
    versions=(3,),
)

_MODES = (("off", 1), ("slow", 3), ("fast", 7))
_FMI2_TYPES = {"Float64": 0.0, "Int32": 0, "Boolean": "false", "String": "", "Enumeration": 3}
_FMI3_TYPES = {"Float64": 0.0, "Float32": 0.0, "Int8": 0, "UInt8": 0, "Int16": 0, "UInt16": 0, "Int32": 0}
_FMI3_TYPES |= {"UInt32": 0, "Int64": 0, "UInt64": 0, "Boolean": "false", "String": "", "Binary": ""}
_FMI3_TYPES |= {"Enumeration": 3}


def _types(starts: dict[str, object], version: int) -> Fmu:
    def several(suffix: str, causality: str, start: bool) -> list[Var]:
        return [
            Var(
                f"{type.lower()}_{suffix}",
                causality,
                "continuous" if type.startswith("Float") else "discrete",
                start=value if start else None,
                type=type,
                items=_MODES if type == "Enumeration" else (),
            )
            for type, value in starts.items()
        ]

    variables = (_TIME, *several("in", "input", True), *several("out", "output", False))
    depends = {f"{type.lower()}_out": (f"{type.lower()}_in",) for type in starts}
    defines = ("FMI2",) if version == 2 else ()
    return Fmu("types", variables, depends, defines=defines, derivatives=False, versions=(version,))


_FAULTS = Fmu(
    "faults",
    (
        _TIME,
        _parameter("at", 0.5),
        Var("u", "input", start=0.0),
        Var("x", initial="exact", start=1.0),
        Var("der(x)", derivative="x"),
        Var("w", initial="exact", start=0.0),
        Var("der(w)", derivative="w"),
        Var("y", "output"),
        Var("z", "output"),
        Var("f", "output"),
    ),
    {"der(x)": ("x", "u"), "der(w)": ("x",), "y": ("x",), "z": ("w",), "f": ("u",)},
)


def _fault(name: str, fault: str = "", **settings: object) -> Fmu:
    return replace(
        _FAULTS, name=name, source="faults", defines=(f"FAULT={fault or name.upper()}",), **settings
    )  # type: ignore[arg-type]


def _linear(name: str, *defines: str, **settings: object) -> Fmu:
    return replace(LINEAR, name=name, source="linear", defines=defines, **settings)  # type: ignore[arg-type]


def _smooth() -> Fmu:
    variables = tuple(
        replace(v, more={"intermediateUpdate": "true"}) if v.name in ("u", "y") else v
        for v in LINEAR.variables
    )
    return _linear("smooth", "INTERMEDIATE", variables=variables, intermediate=True, versions=(3,))


_BARE = {"derivatives": False, "state": False}
_ALL = (
    *(
        LINEAR,
        GAIN,
        BALL,
        STAIRS,
        RELAY,
        HANGING,
        SUMMER,
        CLOCKS,
        SPACE,
        _types(_FMI2_TYPES, 2),
        _types(_FMI3_TYPES, 3),
    ),
    *(replace(fmu, state=version == 3, versions=(version,)) for fmu in (POWER, WINDOW) for version in (2, 3)),
    _mass("upper", "2", -0.7, 3.5),
    _mass("lower", "1", -8.8, 3.0, "LOWER"),
    replace(STAIRS, name="stale", source="stairs", defines=("MOST=3", "STALE=0.25")),
    replace(BALL, name="inside", source="ball", event_mode=False),
    _smooth(),
    _linear("bare", "BARE", **_BARE),
    _linear("hollow", "BARE"),  # declares what it lacks
    _linear("renamed", library="another"),
    _linear("chatty", "CHATTY"),
    _linear("overflow", "OVERFLOW"),
    _linear("early", "EARLY"),
    _linear("relapsing", "RESET_LIES", versions=(2,)),
    replace(GAIN, name="rows", source="gain", adjoint=True, versions=(3,)),
    *(_fault(name) for name in ("nothing", "crash", "hang", "exit", "fail", "doom", "pend", "warn", "stop")),
    *(_fault(name) for name in ("printing", "segfault")),
    *(_fault(name, derivatives=False, exchange=False) for name in ("partial", "stuck", "racy")),
    *(
        _fault(name)
        for name in ("forget", "approximate", "savecrash", "leak", "moody", "delayed", "touchy", "picky")
    ),
    _fault("once", once=True),
    _fault("resets", versions=(2,)),
    *(_fault(name) for name in ("stubborn", "expires", "unready", "precise")),
    replace(_fault("mumbling", "FAIL"), defines=("FAULT=FAIL", "MUMBLE")),
)
MODELS = {(fmu.name, version): fmu for fmu in _ALL for version in fmu.versions}
"""Every FMU of tests/fmus by name and version of FMI."""


def bounces(
    until: float, h: float = 1.0, g: float = 9.81, e: float = 0.7, v_min: float = 0.1
) -> list[tuple[float, float]]:
    """When the ball hits the ground up to `until`, and how fast it leaves it: 0 when it stays there."""
    t, v = sqrt(2 * h / g), sqrt(2 * g * h)
    found: list[tuple[float, float]] = []
    while t <= until:
        v *= e
        found.append((t, v if v >= v_min else 0.0))
        if v < v_min:
            break
        t += 2 * v / g
    return found


def height(t: float, g: float = 9.81) -> float:
    """Where the ball of these bounces is at `t`."""
    past = [(0.0, None), *bounces(t)]
    since, v = past[-1]
    if v is None:
        return 1.0 - g * t * t / 2
    return 0.0 if v == 0 else v * (t - since) - g * (t - since) ** 2 / 2
