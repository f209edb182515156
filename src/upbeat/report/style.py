"""The looks that all pictures share: colours, sizes of text, frames."""

from __future__ import annotations

from typing import Any

# Told apart with any kind of colour vision (after Okabe and Ito; yellow is left out: too pale on white).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
INK, FRAME, GRID, EVENT = "#222222", "#999999", "#e8e8e8", "#b0a8b9"
SMALL, TEXT = 8.0, 9.0


def frame(axis: Any, title: str) -> None:
    """A quiet frame, with the title over its left end."""
    axis.set_axisbelow(True)
    axis.grid(True, color=GRID, linewidth=0.7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(FRAME)
    axis.tick_params(labelsize=SMALL, color=FRAME, labelcolor=INK, length=3)
    axis.set_title(title, loc="left", fontsize=TEXT, color=INK, pad=4)
