"""How late a system of two modes may switch, in words."""

from __future__ import annotations

from upbeat.stability.hybrid.late import LateSwitches


def limit(found: LateSwitches) -> str:
    """What is known, in a sentence without its end."""
    if found.why:
        return f"how late switches may be is not known: {found.why}"
    if found.largest is None:
        return "it comes to rest however late it switches, as far as was looked"
    late = f"{found.largest.delay:.8g} s"
    if found.largest.edge:
        return (
            f"switches must be less than {late} late, and perhaps less late than that: wider orbits were not "
            "looked at"
        )
    return f"it comes to rest as long as it switches less than {late} late"


def advice(found: LateSwitches) -> list[str]:
    """What that means for the master there is, and what to change."""
    safe = found.safe
    if safe is None:
        return []
    if found.inside:
        return [
            f"{found.inside} locates its switches by itself; where others have a part in them, take steps, "
            f"or tolerance (t_min) of look_ahead, of at most {safe:.4g} s"
        ]
    if found.here is None:
        return [
            f"take steps of at most {safe:.4g} s, or look_ahead with tolerance (t_min) up to {safe:.4g} s"
        ]
    if found.here < safe:
        return [
            f"with this master a switch comes up to {found.here:.4g} s late, which is soon enough; tolerance "
            f"(t_min) may be up to {safe:.4g} s"
        ]
    return [
        f"with this master a switch comes up to {found.here:.4g} s late, which is too late: take steps of at "
        f"most {safe:.4g} s, or land on switches by look_ahead (--events auto) with tolerance (t_min) up to "
        f"{safe:.4g} s"
    ]
