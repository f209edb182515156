"""Units for model exchange whose states can leave the process."""

from __future__ import annotations

from upbeat.units.fmi.exchange import state
from upbeat.units.fmi.exchange.state import Held
from upbeat.units.fmi.exchange.unit import Exchange


class PackableExchange(Exchange):
    """One whose states can be turned into bytes; a class of its own, since others lack the two calls."""

    def to_bytes(self, token: Held) -> bytes:
        """As `upbeat.units.fmi.exchange.state` lays it out."""
        return state.to_bytes(token.ours, self.inputs.ports, self.clocks, self.instance.to_bytes(token.state))

    def from_bytes(self, data: bytes) -> Held:
        """A token that can be restored."""
        ours, own = state.from_bytes(data, self.inputs.ports, self.clocks, *self.motion.sizes)
        return self.tokens.token(ours, self.instance.from_bytes(own))
