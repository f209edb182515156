"""Which causality, variability and initial go together, and what counts where nothing, or nonsense, is said.

The tables of FMI 2.0 (section 2.2.7) and FMI 3.0 (section 2.4.7.4), which agree but for structural
parameters.
"""

from __future__ import annotations

from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.description.words import Causality, Initial, Type, Variability

_C, _V, _I = Causality, Variability, Initial

_EXACT: tuple[Initial, ...] = (_I.EXACT,)
_FOUND: tuple[Initial, ...] = (_I.CALCULATED, _I.APPROX)
_ANY: tuple[Initial, ...] = (_I.CALCULATED, _I.EXACT, _I.APPROX)
_NONE: tuple[Initial, ...] = ()

INITIALS: dict[tuple[Causality, Variability], tuple[Initial, ...]] = {
    **{(c, v): _EXACT for c in (_C.PARAMETER, _C.STRUCTURAL_PARAMETER) for v in (_V.FIXED, _V.TUNABLE)},
    **{(_C.CALCULATED_PARAMETER, v): _FOUND for v in (_V.FIXED, _V.TUNABLE)},
    **{(_C.INPUT, v): _EXACT for v in (_V.DISCRETE, _V.CONTINUOUS)},
    (_C.OUTPUT, _V.CONSTANT): _EXACT,
    **{(_C.OUTPUT, v): _ANY for v in (_V.DISCRETE, _V.CONTINUOUS)},
    (_C.LOCAL, _V.CONSTANT): _EXACT,
    **{(_C.LOCAL, v): _FOUND for v in (_V.FIXED, _V.TUNABLE)},
    **{(_C.LOCAL, v): _ANY for v in (_V.DISCRETE, _V.CONTINUOUS)},
    (_C.INDEPENDENT, _V.CONTINUOUS): _NONE,
}
"""The combinations that are allowed, with what `initial` may be; the first one is the default."""

_PARAMETERS = (_C.PARAMETER, _C.CALCULATED_PARAMETER, _C.STRUCTURAL_PARAMETER)


def variability_of(
    given: Variability | None, causality: Causality, kind: Type, at: Attributes
) -> Variability:
    """The variability that counts, given what the file says (`at` takes the warnings)."""
    version_2 = at.element.tag == "ScalarVariable"
    if given is None and causality in _PARAMETERS:
        if version_2:
            at.warning(
                "a parameter without variability would be continuous, which it cannot be: taken as fixed"
            )
        return _V.FIXED
    if given is None:
        return _V.CONTINUOUS if kind.is_float else _V.DISCRETE
    if given is _V.CONTINUOUS and not kind.is_float and version_2:
        # FMI 2's default is 'continuous' for every type, so tools write it out.
        at.warning("only real variables can be continuous: taken as discrete")
        return _V.DISCRETE
    if given is _V.CONTINUOUS and not kind.is_float:
        at.violation("only real variables can be continuous: taken as discrete")
        return _V.DISCRETE
    return given


def initial_of(
    given: Initial | None, causality: Causality, variability: Variability, kind: Type, at: Attributes
) -> Initial | None:
    """The `initial` that counts; reports combinations that the standards forbid."""
    possible = INITIALS.get((causality, variability))
    if possible is None:
        # What counts is what the variable is for: a constant parameter is a value that nobody can change.
        at.violation(
            f"causality '{causality.value}' and variability '{variability.value}' exclude each other"
        )
        if causality is _C.INDEPENDENT or kind is Type.CLOCK:
            return None
        settable = causality in (_C.PARAMETER, _C.STRUCTURAL_PARAMETER, _C.INPUT)
        return _I.EXACT if settable or variability is _V.CONSTANT else given or _I.CALCULATED
    if kind is Type.CLOCK:
        return None
    default = possible[0] if possible else None
    if given is None or given in possible:
        if given is not None and causality is _C.INPUT and at.element.tag == "ScalarVariable":
            at.warning("FMI 2 has no 'initial' for an input")
        return given or default
    if not possible:
        at.violation(f"initial cannot be given for causality '{causality.value}'")
    else:
        words = " or ".join(f"'{word.value}'" for word in possible)
        at.violation(
            f"initial '{given.value}' does not go with causality '{causality.value}' and variability "
            f"'{variability.value}': it can be {words}"
        )
    return default


def check_start(
    present: bool, causality: Causality, initial: Initial | None, kind: Type, at: Attributes
) -> bool:
    """Whether the start value counts; reports one that is missing or not allowed."""
    if kind is Type.CLOCK:
        if present:
            at.warning("a clock has no start value: ignored")
        return False
    if causality is _C.INDEPENDENT or initial is _I.CALCULATED:
        if present:
            why = (
                "the independent variable"
                if causality is _C.INDEPENDENT
                else "a variable with initial 'calculated'"
            )
            at.warning(f"{why} has no start value: ignored")
        return False
    if not present and causality is _C.INPUT:
        at.warning("an input needs a start value: the FMU's own is taken")
    elif not present:
        at.violation(
            f"a start value is missing (causality '{causality.value}', initial '{_word(initial)}' need one)"
        )
    return present


def _word(initial: Initial | None) -> str:
    return initial.value if initial else "none"
