"""What was asked for, one file for each area: its claims, in the order of the page."""

from __future__ import annotations

from tools.evidence.areas import (
    adaptation,
    anatomy,
    cores,
    discover,
    engine,
    events,
    explore,
    fmus,
    foundation,
    generated,
    hardening,
    hints,
    hybrid,
    installs,
    loops,
    properties,
    resting,
    stability,
    structures,
    studio,
    trust,
    truth,
)
from tools.evidence.claim import Claim

AREAS: dict[str, tuple[Claim, ...]] = {
    "Foundation: overhead, start, orders": foundation.CLAIMS,
    "Loops, constraints, error control, nesting": loops.CLAIMS,
    "Discrete events and long runs": hybrid.CLAIMS,
    "FMUs": fmus.CLAIMS,
    "Events": events.CLAIMS,
    "Events that nobody declared": discover.CLAIMS,
    "Systems people recognise": structures.CLAIMS,
    "Events that come in clusters": resting.CLAIMS,
    "Several cores": cores.CLAIMS,
    "A combustion engine": engine.CLAIMS,
    "Stability": stability.CLAIMS,
    "Adaptations": adaptation.CLAIMS,
    "Nothing wrong is silent": truth.CLAIMS,
    "Trust": trust.CLAIMS,
    "Generated code": generated.CLAIMS,
    "Properties and power bonds": properties.CLAIMS,
    "Hints": hints.CLAIMS,
    "Studies": explore.CLAIMS,
    "Studio": studio.CLAIMS,
    "Nothing costs a user anything": hardening.CLAIMS,
    "The code base": anatomy.CLAIMS,
    "Installs": installs.CLAIMS,
}
