"""What is known about policies that take turns, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upbeat.stability.linear.induced import told
from upbeat.stability.switched.policies import Certified
from upbeat.stability.switched.tables import Held

SHOWN = 8
"""So many sequences are listed; more only counted."""


def describe_steps(found: Certified) -> str:
    """The verdict in one sentence, then what grows and what is forbidden, then what to write."""
    lines = [str(found), ""]
    data = found.data()
    lines += [f"  grows      {_word(one)}, {_by(one)}" for one in data["growing"][:SHOWN]]
    lines += [f"  remains    {_word(one)}, again and again" for one in data["marginal"][:SHOWN]]
    if not found.proven:
        return "\n".join([*lines, *_local(found.notes)]).rstrip()
    forbidden = [" → ".join(found.labels[k] for k in word) for word in found.forbidden_words]
    lines += [f"  forbidden  {word}" for word in forbidden[:SHOWN]]
    if len(forbidden) > SHOWN:
        lines.append(f"             and {len(forbidden) - SHOWN} more")
    nodes, lift = found.kept.automaton.nodes, found.kept.lift.degree
    where = "node" if nodes == 1 else "nodes"
    lines.append(f"  proof      a quadratic form for each of {nodes} {where} (lift {lift}), checked exactly")
    if forbidden:
        lines += ["", "What to write under [master] to keep to it (the pace inside is yours to choose):"]
        lines.append(f"  {monitor_line(found)}")
    return "\n".join([*lines, *_local(found.notes)])


def _word(one: dict[str, Any]) -> str:
    names = one.get("blocks", [""] * len(one["steps"]))
    return " → ".join(f"{name} {step:g}".strip() for name, step in zip(names, one["steps"], strict=True))


def _by(one: dict[str, Any]) -> str:
    """How fast a sequence grows; what is too little to be seen in six digits as what it is above 1."""
    growth = one["growth"]
    shown = f"{growth:.6g}" if growth > 1.000005 else f"1 + {growth - 1.0:.2g}"
    return f"again and again: by {shown} with every step"


def _local(notes: Sequence[str]) -> list[str]:
    return ["", "Local, because:", *(f"  • {note}" for note in notes)] if notes else []


def sentence_of_table(held: Held) -> str:
    """What is known about the sequences that a table lets through, in one sentence."""
    words = {
        "stable": "every sequence of steps that the pace lets through is proven to decay",
        "unstable": f"the pace lets steps of {held.growing} through, which grow when repeated",
        "undecided": f"{held.decision.why}, among those that the pace lets through",
    }
    verdict = held.decision.verdict
    return told(verdict.capitalize(), f"{words[verdict]}.", linear=held.linear, at=held.at)


def describe_table(held: Held) -> str:
    """The verdict on a table in one sentence, then what it is about."""
    lines = [sentence_of_table(held), "", f"  steps   {', '.join(held.pace.labels)} s"]
    if held.decision.certificates:
        count = sum(proof.automaton.nodes for proof in held.decision.certificates)
        forms = "a quadratic form" if count == 1 else f"{count} quadratic forms"
        lines.append(f"  proof   {forms}, checked exactly")
    for one in held.decision.growing[:SHOWN]:
        lines.append(f"  grows   {held.word(one.policies)}, {_by({'growth': one.growth})}")
    return "\n".join([*lines, *_local(held.notes)])


def monitor_line(found: Certified) -> str:
    """The pace of a scenario file that keeps to what is proven."""
    steps = ", ".join(f"{step!r}" for step in found.steps)
    leads = ", ".join(f"[{', '.join(map(str, row))}]" for row in found.leads)
    longest = found.steps[-1]
    inner = f'{{ kind = "event_driven", longest = {longest!r} }}'
    names = ", ".join(f'"{block}"' for block in found.blocks)
    blocks = f", blocks = [{names}]" if names else ""
    return f'pace = {{ kind = "monitored", pace = {inner}, steps = [{steps}]{blocks}, leads = [{leads}] }}'
