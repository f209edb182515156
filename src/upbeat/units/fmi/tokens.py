"""Tokens for states that an FMU keeps, with what a unit knows besides; it forgets those that nobody has."""

from __future__ import annotations

from typing import Generic, TypeVar

from upbeat.units.fmi.instance import Instance, State

T = TypeVar("T")


class Token(Generic[T]):
    """A state of the FMU, and `ours`. When nobody has it any more, the FMU may forget its state, too."""

    __slots__ = ("_unused", "ours", "state")

    def __init__(self, ours: T, state: State, unused: list[State]) -> None:
        self.ours = ours
        self.state = state
        self._unused = unused

    def __del__(self) -> None:
        # Not the call itself: Python may come here at any time and in any thread.
        self._unused.append(self.state)


class Tokens(Generic[T]):
    """Those of one instance. What is left of them when it is freed is freed with it."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._unused: list[State] = []
        self._kept = 0

    @property
    def alive(self) -> bool:
        """Whether the unit may yet be set back."""
        return self._kept > len(self._unused)

    def token(self, ours: T, state: State) -> Token[T]:
        """A token for a state that the FMU keeps."""
        while self._unused:
            self._kept -= 1
            self._instance.drop(self._unused.pop())
        self._kept += 1
        return Token(ours, state, self._unused)
