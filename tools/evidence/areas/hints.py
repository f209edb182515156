"""What was asked of hints: smooth loads, the published variants, and good masters found with little work."""

from __future__ import annotations

from tools.evidence.claim import Claim

FLIGHT, VARIANTS, CONFIGURE = "reproduce/flight_control.py", "reproduce/variants.py", "reproduce/configure.py"

CLAIMS = (
    Claim(
        "flight control: roughness of the best master by hand over that from hints",
        "≥ 20 ×",
        FLIGHT,
        lambda d: f"{d['smoother']:.3g} ×",
        lambda d: d["smoother"] >= 20.0,
    ),
    Claim(
        "… and its work over that of the best by hand",
        "≤ 1 ×",
        FLIGHT,
        lambda d: f"{d['work']['hinted'] / d['work'][smoothest(d)]:.2f} ×",
        lambda d: d["work"]["hinted"] <= d["work"][smoothest(d)],
    ),
    Claim(
        "variants of the published search space",
        "(1e-7, 100), (1e-7, 10), (1e-6, 100), (1e-6, 10)",
        VARIANTS,
        lambda d: ", ".join(f"({h:.0e}, {r})".replace("e-0", "e-") for h, r in d["variants"]),
        lambda d: d["variants"] == [[1e-7, 100], [1e-7, 10], [1e-6, 100], [1e-6, 10]],
    ),
    Claim(
        "problems without hints: error within 3 × the best of the space, for less than a tenth of its work",
        "≥ 12",
        CONFIGURE,
        lambda d: f"{d['hold']} of {d['n']}",
        lambda d: d["hold"] >= 12,
    ),
)


def smoothest(d: dict[str, dict[str, float]]) -> str:
    """The smoothest master by hand."""
    return min(("jacobi", "multirate", "gauss_seidel"), key=lambda name: d["roughness"][name])
