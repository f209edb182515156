"""Bad inputs, one file for each area: what is given, and the words that have to be in the answer."""

from __future__ import annotations

from tools.evidence.bad import adaptation, cores, events, fmus, foundation, hybrid, loops, stability
from tools.evidence.bad.case import Case

CASES: dict[str, tuple[Case, ...]] = {
    "Files, units, times, results": foundation.CASES,
    "Loops, constraints, negotiation, nesting": loops.CASES,
    "Discrete events and long runs": hybrid.CASES,
    "FMUs and SSPs": fmus.CASES,
    "Events": events.CASES,
    "Several cores": cores.CASES,
    "Stability": stability.CASES,
    "Adaptations": adaptation.CASES,
}
