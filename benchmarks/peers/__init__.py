"""What a user would run instead: other estimators of log Z, in their recommended settings.

A peer takes a PyMC model and returns a function from a seed to its estimate of log Z. What it
compiles once for a model it compiles when it is given the model; only its first call is charged
with that. The packages are the extra ``bench``, and are imported by the peer that needs them.
"""

from collections.abc import Callable

import pymc as pm

from benchmarks.peers import blackjax_smc, nested, particles_smc
from benchmarks.peers.nuts_bridge import nuts_bridge
from benchmarks.peers.pocomc_smc import pocomc
from benchmarks.peers.pymc_smc import sample_smc

__all__ = ["PEERS", "PEER_MODELS", "Peer"]

Peer = Callable[[pm.Model], Callable[[int], float]]

PEERS: dict[str, Peer] = {
    "sample_smc": sample_smc,
    "blackjax_tempered": blackjax_smc.tempered,
    "blackjax_waste_free": blackjax_smc.waste_free,
    "blackjax_persistent": blackjax_smc.persistent,
    "particles_waste_free": particles_smc.waste_free,
    "particles_ibis": particles_smc.ibis,
    "dynesty": nested.dynesty,
    "nautilus": nested.nautilus,
    "ultranest": nested.ultranest,
    "pocomc": pocomc,
    "nuts_bridge": nuts_bridge,
}

# Chosen before any of them was run with all peers, by kind and not by who does well: continuous
# models (most peers take nothing else) whose variables have an icdf in PyMC (nested samplers need
# it), one or two for each kind of model and each difficulty of the suite, from 1 to 50 dimensions.
PEER_MODELS = (
    "beta_binomial_coin",
    "normal_inverse_gamma",
    "gaussian_vector_20",
    "gaussian_vector_50",
    "linear_regression_full",
    "logistic_regression",
    "poisson_regression",
    "student_regression",
    "pine_density",
    "eight_schools_centered",
    "eight_schools_non_centered",
    "random_intercept",
    "funnel",
    "mixture_marginal",
    "banana",
    "random_walk_increments",
    "gaussian_process_unknown_lengthscale",
)
