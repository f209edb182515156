"""Model exchange: an FMU gives derivatives and indicators, one of our solvers does the rest."""

from __future__ import annotations

from upbeat.units.fmi.exchange.packable import PackableExchange
from upbeat.units.fmi.exchange.shown import shown
from upbeat.units.fmi.exchange.slopes import indicator_names
from upbeat.units.fmi.exchange.unit import Exchange

__all__ = ["Exchange", "PackableExchange", "indicator_names", "shown"]
