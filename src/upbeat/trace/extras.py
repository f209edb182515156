"""Optional libraries, imported when first needed, with a message that says what to install."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from upbeat.core.errors import MissingExtra


def need(module: str, extra: str, purpose: str) -> Any:
    """The imported `module`, or `MissingExtra`."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(extra, purpose) from None


def check(module: str, extra: str, purpose: str) -> None:
    """`MissingExtra` if `need` would fail later; does not pay for the import."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(extra, purpose)
