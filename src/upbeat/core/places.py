"""Numbered places for things that others keep: the lowest free one comes first, and tokens give them back."""

from __future__ import annotations

import heapq


class Places:
    """Numbers from `first` on, each of them free again once nobody holds its token."""

    def __init__(self, first: int = 0) -> None:
        self._free: list[int] = []
        self._next = first

    def take(self) -> Place:
        """A token for the lowest number that is free."""
        if not self._free:
            heapq.heappush(self._free, self._next)
            self._next += 1
        return Place(heapq.heappop(self._free), self._free)

    def owns(self, place: Place) -> bool:
        """Whether the token is one of these."""
        return place.free is self._free


class Place:
    """A token: the number of its place."""

    __slots__ = ("free", "number")

    def __init__(self, number: int, free: list[int]) -> None:
        self.number = number
        self.free = free

    def __del__(self) -> None:
        heapq.heappush(self.free, self.number)
