"""Masters as plain settings: the `[master]` table of a file, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import InvalidInput, Problems, current_names, suggest
from upbeat.master import checks
from upbeat.master.couplings.coupling import Coupling
from upbeat.master.events.instants import Simultaneous
from upbeat.master.inputs.approximation import Approximation
from upbeat.master.loops import LoopSolver
from upbeat.master.master import Master
from upbeat.master.paces.pace import Fixed, Pace
from upbeat.units.solving.solvers import solver_spec

if TYPE_CHECKING:
    from upbeat.master.couplings.variants import Variant


class Kinds(Mapping[str, type]):
    """The built-in classes of a sort, by the names that files give them: a run imports those that it uses."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes
        self._names = {f"upbeat.master.{home}": name for name, home in homes.items()}

    def __getitem__(self, name: str) -> type:
        module, _, cls = self._homes[name].rpartition(".")
        found: type = getattr(import_module(f"upbeat.master.{module}"), cls)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def name_of(self, item: object) -> str | None:
        """What files call the class of an object; None if it is a user's own."""
        cls = type(item)
        return self._names.get(f"{cls.__module__}.{cls.__qualname__}")


COUPLINGS = Kinds(
    {
        "jacobi": "couplings.coupling.Jacobi",
        "gauss_seidel": "couplings.coupling.GaussSeidel",
        "iterated": "couplings.iterated.Iterated",
        "constrained": "couplings.constrained.Constrained",
        "multi_rate": "couplings.multirate.MultiRate",
        "negotiated": "couplings.negotiated.Negotiated",
        "refined": "couplings.refined.Refined",
        "interruptible": "couplings.interruptible.Interruptible",
        "variants": "couplings.variants.Variants",
    }
)
LOOPS = Kinds({"newton": "loops.Newton", "anderson": "loops.Anderson", "fixed_point": "loops.FixedPoint"})
PACES = Kinds(
    {
        "fixed": "paces.pace.Fixed",
        "error_control": "paces.error_control.ErrorControl",
        "event_driven": "paces.pace.EventDriven",
        "look_ahead": "paces.lookahead.LookAhead",
        "monitored": "paces.monitored.Monitored",
        "pattern": "paces.pattern.Pattern",
        "revised": "paces.revised.Revised",
    }
)
APPROXIMATIONS = Kinds(
    {
        "hold": "inputs.approximation.Hold",
        "linear": "inputs.approximation.Linear",
        "polynomial": "inputs.approximation.Polynomial",
        "hermite": "inputs.approximation.Hermite",
        "taylor": "inputs.approximation.Taylor",
        "continuous": "inputs.approximation.Continuous",
        "smooth": "inputs.approximation.Smooth",
        "nepce": "inputs.approximation.Nepce",
    }
)

PARTS: dict[str, tuple[str, Kinds]] = {
    "coupling": ("coupling", COUPLINGS),
    "loops": ("loop solver", LOOPS),
    "pace": ("pace", PACES),
    "approximation": ("approximation", APPROXIMATIONS),
}
"""Settings that are themselves a name or a table with a kind."""

_MARKS = {
    "coupling": ("blocks",),
    "loop solver": ("solve",),
    "pace": ("write", "propose"),
    "approximation": ("extrapolate",),
}
"""What an object of each sort has; one of them is enough."""

KEYS = ("coupling", "pace", "step", "inputs", "ports", "simultaneous", "events")


def master_from(
    settings: Mapping[str, Any], problems: Problems, *, usual: Pace | None = None
) -> Master | None:
    """The master that `settings` describe; what is wrong with them goes to `problems`.

    `usual` is the pace where they give none; without it, that is a problem.
    """
    where = ("master",)
    before = len(problems.found)
    for key in settings:
        if key not in KEYS:
            problems.add((*where, key), f"unknown key '{key}'", suggest(key, KEYS, "keys"))
    coupling = inputs = None
    if "coupling" in settings:
        coupling = _build(settings["coupling"], COUPLINGS, "coupling", (*where, "coupling"), problems)
    if "inputs" in settings:
        inputs = _build(settings["inputs"], APPROXIMATIONS, "approximation", (*where, "inputs"), problems)
    pace = _pace(settings, problems, usual)
    simultaneous = _simultaneous(settings.get("simultaneous", {}), problems)
    events = settings.get("events")
    if events is None and _only_a_step(settings):
        events = "auto"
    try:
        checks.events(events)
    except InvalidInput as error:
        problems.add((*where, "events"), str(error))
    ports: dict[str, Approximation] = {}
    given = settings.get("ports", {})
    if not isinstance(given, Mapping):
        problems.add(
            (*where, "ports"), "must be a table", 'Write [master.ports] with lines like "left.F" = "linear".'
        )
        given = {}
    for name, value in given.items():
        approximation = _build(value, APPROXIMATIONS, "approximation", (*where, "ports", name), problems)
        if approximation is not None:
            ports[name] = approximation
    if len(problems.found) > before or pace is None:
        return None
    return Master(
        pace=pace, coupling=coupling, inputs=inputs, ports=ports, simultaneous=simultaneous, events=events
    )


def _only_a_step(settings: Mapping[str, Any]) -> bool:
    """Whether no pace is named: how events are met is then left open, too."""
    pace = settings.get("pace")
    return "step" in settings or (isinstance(pace, Real) and not isinstance(pace, bool))


def _simultaneous(given: Any, problems: Problems) -> Simultaneous:
    """Who goes first; from Python it may be the object itself, and a list is the order alone."""
    where = ("master", "simultaneous")
    table = {"order": given} if isinstance(given, (list, tuple)) else given
    if isinstance(table, Simultaneous):
        return table
    known = [field.name for field in fields(Simultaneous)]
    if not isinstance(table, Mapping):
        problems.add(where, f"must be a table, not {given!r}", 'Write simultaneous = { order = ["a", "b"] }.')
        return Simultaneous()
    try:
        table = current_names("Simultaneous", table)
    except InvalidInput as error:
        problems.add(where, str(error))
        return Simultaneous()
    for key in table:
        if key not in known:
            problems.add((*where, key), f"unknown key '{key}'", suggest(key, known, "keys"))
            return Simultaneous()
    try:
        return Simultaneous(**table)
    except (InvalidInput, TypeError) as error:
        problems.add(where, str(error))
        return Simultaneous()


def _pace(settings: Mapping[str, Any], problems: Problems, usual: Pace | None) -> Pace | None:
    if "step" in settings and "pace" in settings:
        problems.add(
            ("master", "step"),
            "both 'step' and 'pace' are given",
            "Keep one: step = 0.01 means a fixed pace.",
        )
        return None
    pace = usual
    if "step" in settings:
        fixed = {"kind": "fixed", "step": settings["step"]}
        pace = _build(fixed, PACES, "pace", ("master", "step"), problems)
    elif "pace" in settings:
        pace = _build(settings["pace"], PACES, "pace", ("master", "pace"), problems)
    elif usual is None:
        hint = "Add step = 0.01 under [master]."
        problems.add(("master",), "the size of a communication step is missing", hint)
    return pace


def _build(value: Any, known: Kinds, noun: str, where: tuple[str, ...], problems: Problems) -> Any:
    """An object from ``"name"`` or ``{kind = "name", …}``; from Python it may be one already.

    A number is a fixed pace.
    """
    article = "an" if noun[0] in "aeiou" else "a"
    if isinstance(value, type):
        problems.add(
            where, f"{value.__name__} is a class and not yet {article} {noun}", f"Write {value.__name__}(…)."
        )
        return None
    if any(hasattr(value, mark) for mark in _MARKS[noun]):
        return value
    options = {"kind": value} if isinstance(value, str) else value
    if known is PACES and isinstance(value, Real) and not isinstance(value, bool):
        options = {"kind": "fixed", "step": float(value)}
    if not isinstance(options, Mapping) or not isinstance(options.get("kind"), str):
        problems.add(
            where,
            f"{article} {noun} is a name or a table with a kind, not {value!r}",
            f'Write "{next(iter(known))}".',
        )
        return None
    kind = options["kind"]
    if kind not in known:
        problems.add(where, f"unknown {noun} '{kind}'", suggest(kind, known, f"{noun}s"))
        return None
    given = {key: item for key, item in options.items() if key != "kind"}
    cls = known[kind]
    try:
        arguments = current_names(cls.__name__, given)
    except InvalidInput as error:
        problems.add(where, str(error))
        return None
    options_known = getattr(cls, "__dataclass_fields__", {})
    for key in arguments:
        if key not in options_known:
            problems.add(
                (*where, key),
                f"the {noun} '{kind}' has no setting '{key}'",
                suggest(key, options_known, "settings"),
            )
            return None
    for key in arguments.keys() & PARTS.keys():
        arguments[key] = _build(arguments[key], PARTS[key][1], PARTS[key][0], (*where, key), problems)
        if arguments[key] is None:
            return None
    others = arguments.get("others")
    if kind == "variants" and isinstance(others, Mapping):
        before = len(problems.found)
        made = {name: _variant(one, (*where, "others", name), problems) for name, one in others.items()}
        arguments["others"] = made
        if len(problems.found) > before:
            return None
    missing = [f.name for f in fields(cls) if f.default is f.default_factory is MISSING]
    for key in missing:
        if key not in arguments:
            problems.add(
                where, f"the {noun} '{kind}' needs '{key}'", f'Write {{ kind = "{kind}", {key} = … }}.'
            )
            return None
    try:
        return cls(**arguments)
    except (InvalidInput, TypeError) as error:
        problems.add(where, str(error))
        return None


def _variant(given: Any, where: tuple[str, ...], problems: Problems) -> Variant | None:
    """A way to make a step, from its table; from Python it may be one already."""
    from upbeat.master.couplings.variants import Variant

    if isinstance(given, Variant):
        return given
    if not isinstance(given, Mapping):
        hint = 'Write { coupling = "gauss_seidel" }, or { solvers = { UNIT = "rk4" } }.'
        problems.add(where, f"a variant is a table, not {given!r}", hint)
        return None
    known = [field.name for field in fields(Variant)]
    for key in given:
        if key not in known:
            problems.add((*where, key), f"unknown key '{key}'", suggest(key, known, "keys"))
            return None
    coupling = given.get("coupling")
    if coupling is not None:
        coupling = _build(coupling, COUPLINGS, "coupling", (*where, "coupling"), problems)
        if coupling is None:
            return None
    try:
        return Variant(coupling, given.get("solvers", {}))
    except InvalidInput as error:
        problems.add(where, str(error))
        return None


def settings_of(master: Master) -> dict[str, Any]:
    """The settings that give `master` back."""
    settings: dict[str, Any] = {}
    step = master.pace.step if type(master.pace) is Fixed and master.events == "auto" else None
    if master.coupling is not None:
        settings["coupling"] = _plain(master.coupling, COUPLINGS)
    if step is not None:
        settings["step"] = step  # which leaves to "auto" how events are met
    else:
        settings["pace"] = _plain(master.pace, PACES)
    if master.inputs is not None:
        settings["inputs"] = _plain(master.inputs, APPROXIMATIONS)
    if master.ports:
        settings["ports"] = {name: _plain(item, APPROXIMATIONS) for name, item in master.ports.items()}
    if master.simultaneous != Simultaneous():
        settings["simultaneous"] = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(master.simultaneous).items()
            if value != getattr(Simultaneous(), key)
        }
    if master.events is not None and step is None:
        settings["events"] = master.events
    return settings


def _plain(item: Coupling | Pace | Approximation | LoopSolver, known: Kinds) -> str | dict[str, Any]:
    name = known.name_of(item)
    if name is None:
        return repr(item)  # a user's own: it can be run and explained, but not be named in a file
    options: dict[str, Any] = {}
    for field in fields(item):  # type: ignore[arg-type]
        value = getattr(item, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if name == "variants" and field.name == "others":
            options[field.name] = {key: _plain_variant(one) for key, one in value.items()}
        elif value != default:
            options[field.name] = _plain(value, PARTS[field.name][1]) if field.name in PARTS else value
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
    return {"kind": name, **plain} if plain else name


def _plain_variant(variant: Variant) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if variant.coupling is not None:
        table["coupling"] = _plain(variant.coupling, COUPLINGS)
    if variant.solvers:
        table["solvers"] = {unit: solver_spec(solver) for unit, solver in variant.solvers.items()}
    return table
