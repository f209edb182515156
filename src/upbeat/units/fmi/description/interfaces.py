"""The ways in which an FMU can be run, and what it declares it can do in each."""

from __future__ import annotations

import re
from typing import Any

from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.model import CoSimulation, ModelExchange, ScheduledExecution
from upbeat.units.fmi.xml import Element

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def read_co_simulation(root: Element, version: int, findings: Findings) -> CoSimulation | None:
    """What the FMU can do with its own solver; None if it has none."""
    at = _at(root, "CoSimulation", findings)
    if at is None:
        return None
    smoothness = at.whole("recommendedIntermediateInputSmoothness", (-(2**31), 2**31 - 1))
    asynchronous = (
        "canRunAsynchronuously",
        "canRunAsynchronously",
    )  # the standard's spelling, and the right one
    step = at.real("fixedInternalStepSize")
    if step is not None and step <= 0:
        at.warning("a fixed internal step that is not positive is ignored")
        step = None
    return CoSimulation(
        **_common(at, version),
        variable_step=at.flag("canHandleVariableCommunicationStepSize"),
        fixed_internal_step=step,
        output_derivative_order=at.whole("maxOutputDerivativeOrder") or 0,
        interpolates_inputs=at.flag("canInterpolateInputs"),
        input_smoothness=smoothness or 0,
        asynchronous=any(at.flag(name) for name in asynchronous),
        intermediate_update=at.flag("providesIntermediateUpdate"),
        may_return_early=at.flag("mightReturnEarlyFromDoStep"),
        early_return_on_demand=at.flag("canReturnEarlyAfterIntermediateUpdate"),
        event_mode=at.flag("hasEventMode"),
        evaluates_discrete_states=at.flag("providesEvaluateDiscreteStates"),
    )


def read_model_exchange(root: Element, version: int, findings: Findings) -> ModelExchange | None:
    """What the FMU can do with the importer's solver; None if it cannot."""
    at = _at(root, "ModelExchange", findings)
    if at is None:
        return None
    if version == 2:
        completed = not at.flag("completedIntegratorStepNotNeeded")
    else:
        completed = at.flag("needsCompletedIntegratorStep")
    return ModelExchange(
        **_common(at, version),
        completed_integrator_step=completed,
        evaluates_discrete_states=at.flag("providesEvaluateDiscreteStates"),
    )


def read_scheduled_execution(root: Element, version: int, findings: Findings) -> ScheduledExecution | None:
    """The importer runs its partitions; None if it cannot."""
    at = _at(root, "ScheduledExecution", findings)
    return ScheduledExecution(**_common(at, version)) if at is not None and version == 3 else None


def _at(root: Element, tag: str, findings: Findings) -> Attributes | None:
    element = root.first(tag)
    return None if element is None else Attributes(element, findings, tag)


def _common(at: Attributes, version: int) -> dict[str, Any]:
    saves = at.flag("canGetAndSetFMUstate") if version == 2 else at.flag("canGetAndSetFMUState")
    serialises = at.flag("canSerializeFMUstate") if version == 2 else at.flag("canSerializeFMUState")
    if serialises and not saves:
        at.warning("states that cannot be got and set cannot be serialised: taken as neither")
    directional = "providesDirectionalDerivative" if version == 2 else "providesDirectionalDerivatives"
    sources = (file for group in at.element.all("SourceFiles") for file in group.all("File"))
    return {
        "model_identifier": _identifier(at),
        "needs_execution_tool": at.flag("needsExecutionTool"),
        "only_once_per_process": at.flag("canBeInstantiatedOnlyOncePerProcess"),
        "without_memory_functions": at.flag("canNotUseMemoryManagementFunctions"),
        "saves_state": saves,
        "serialises_state": serialises and saves,
        "directional_derivatives": at.flag(directional),
        "adjoint_derivatives": at.flag("providesAdjointDerivatives"),
        "per_element_dependencies": at.flag("providesPerElementDependencies"),
        "source_files": tuple(file.attributes.get("name", "") for file in sources),
    }


def _identifier(at: Attributes) -> str:
    """The name of the library, which must never be a path."""
    name = at.required("modelIdentifier")
    if at.has("modelIdentifier") and (
        not name.strip() or any(bad in name for bad in "/\\\0\n") or ".." in name
    ):
        at.error(f"modelIdentifier '{shown(name)}' cannot be the name of a library")
    elif name and not _IDENTIFIER.fullmatch(name):
        at.warning(f"modelIdentifier '{shown(name)}' is not an identifier of C")
    return name
