"""What is known about policies that take turns, in words."""

from __future__ import annotations

from upbeat.stability.switched.policies import Certified

SHOWN = 8
"""So many sequences are listed; more only counted."""


def describe_steps(found: Certified) -> str:
    """The verdict in one sentence, then what grows and what is forbidden, then what to write."""
    lines = [str(found), ""]
    data = found.data()
    for one in data["growing"][:SHOWN]:
        names = one.get("blocks", [""] * len(one["steps"]))
        word = " → ".join(f"{name} {step:g}".strip() for name, step in zip(names, one["steps"], strict=True))
        lines.append(f"  grows      {word}, again and again: by {one['growth']:.6g} with every step")
    if not found.proven:
        return "\n".join([*lines, *found.notes]).rstrip()
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
    return "\n".join([*lines, *found.notes])


def monitor_line(found: Certified) -> str:
    """The pace of a scenario file that keeps to what is proven."""
    steps = ", ".join(f"{step!r}" for step in found.steps)
    leads = ", ".join(f"[{', '.join(map(str, row))}]" for row in found.leads)
    longest = found.steps[-1]
    inner = f'{{ kind = "event_driven", longest = {longest!r} }}'
    names = ", ".join(f'"{block}"' for block in found.blocks)
    blocks = f", blocks = [{names}]" if names else ""
    return f'pace = {{ kind = "monitored", pace = {inner}, steps = [{steps}]{blocks}, leads = [{leads}] }}'
