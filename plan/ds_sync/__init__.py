"""Divide-and-shuffle synchronisation: patterns of groups whose averages spread to every host, with their proof."""

from netprobe.plan.ds_sync.consensus import Consensus, is_connected, prove
from netprobe.plan.ds_sync.patterns import Iteration, choose_pattern

__all__ = ["Consensus", "Iteration", "choose_pattern", "is_connected", "prove"]
