"""After a call that failed, an FMU is only freed: who calls notes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from upbeat.units.fmi.instance import FmuError


class _Failing(Protocol):
    failed: bool


Method = TypeVar("Method", bound=Callable[..., Any])


def noting(method: Method) -> Method:
    """The method of a unit, which notes in `failed` that the FMU has refused something."""

    @wraps(method)
    def noted(self: _Failing, *arguments: Any, **more: Any) -> Any:
        try:
            return method(self, *arguments, **more)
        except FmuError:
            self.failed = True
            raise

    return cast(Method, noted)
