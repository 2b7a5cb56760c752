"""What a user would run instead: other estimators of log Z, in their recommended settings.

A peer takes a PyMC model and returns a function from a seed to its estimate of log Z. What it
compiles once for a model it compiles when it is given the model; only its first call is charged
with that.
"""

from collections.abc import Callable

import pymc as pm

from benchmarks.peers.pymc_smc import sample_smc

__all__ = ["PEERS", "Peer"]

Peer = Callable[[pm.Model], Callable[[int], float]]

PEERS: dict[str, Peer] = {"sample_smc": sample_smc}
