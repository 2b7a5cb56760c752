"""BlackJAX: adaptive tempering, waste-free tempering and persistent sampling.

BlackJAX leaves the moves to its user. They are what its guides do: Hamiltonian Monte Carlo whose
mass matrix is the covariance of the particles, tuned again after every step. With that metric the
target is near a standard normal, for which step sizes of dimension**(-1/4) and trajectories of
length pi/2 are the known optimum.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.peers.target import Target

__all__ = ["persistent", "tempered", "waste_free"]

# Of tempering and persistent sampling, with ten moves each, the library's default.
PARTICLES = 1000
# Of waste-free: chains and their length, as in the documentation of `particles`, by its authors.
CHAINS, LENGTH = 200, 100
MOST_STEPS = 100


def tempered(model: pm.Model) -> Callable[[int], float]:
    """Run adaptive tempered SMC at an effective sample size of one half."""
    import blackjax

    step = partial(blackjax.adaptive_tempered_smc, target_ess=0.5)
    return _prepare(model, step, PARTICLES, 10)


def waste_free(model: pm.Model) -> Callable[[int], float]:
    """Run adaptive tempered SMC that keeps all states of its chains."""
    import blackjax
    from blackjax.smc.waste_free import waste_free_smc

    update = waste_free_smc(CHAINS * LENGTH, LENGTH)
    step = partial(blackjax.adaptive_tempered_smc, target_ess=0.5, update_strategy=update)
    return _prepare(model, step, CHAINS * LENGTH, None)


def persistent(model: pm.Model) -> Callable[[int], float]:
    """Run persistent sampling, which weights the particles of all earlier steps again."""
    import blackjax

    step = partial(blackjax.adaptive_persistent_sampling_smc, max_iterations=MOST_STEPS)
    return _prepare(model, step, PARTICLES, 10)


def _prepare(
    model: pm.Model, algorithm: Callable, particles: int, moves: int | None
) -> Callable[[int], float]:
    import blackjax
    import jax

    target = Target(model)
    step_size = target.dimension**-0.25
    steps = int(np.ceil(np.pi / 2 / step_size))

    def parameters(positions: Any) -> dict:
        covariance = jax.numpy.cov(positions, rowvar=False)
        covariance = covariance.reshape(target.dimension, target.dimension)
        return blackjax.smc.extend_params({"inverse_mass_matrix": covariance})

    kernel = blackjax.hmc.build_kernel()
    make = partial(
        blackjax.inner_kernel_tuning,
        smc_algorithm=algorithm,
        logprior_fn=target.to_jax(target.log_prior),
        loglikelihood_fn=target.to_jax(target.log_likelihood),
        mcmc_step_fn=partial(kernel, step_size=step_size, num_integration_steps=steps),
        mcmc_init_fn=blackjax.hmc.init,
        resampling_fn=blackjax.smc.resampling.systematic,
        mcmc_parameter_update_fn=lambda key, state, info: parameters(state.particles),
        num_mcmc_steps=moves,
    )
    # The state carries all that changes, so one compiled step serves every run.
    advance = jax.jit(make(initial_parameter_value={}).step)

    def run(seed: int) -> float:
        positions = jax.numpy.asarray(target.draw(np.random.default_rng(seed), particles))
        state = make(initial_parameter_value=parameters(positions)).init(positions)
        log_evidence = 0.0
        key = jax.random.key(seed)
        for _ in range(MOST_STEPS):
            key, own = jax.random.split(key)
            state, info = advance(own, state)
            log_evidence += float(getattr(info, "log_likelihood_increment", 0.0))
            if state.sampler_state.tempering_param >= 1.0:
                return float(getattr(state.sampler_state, "log_Z", log_evidence))
        raise RuntimeError(f"the temperature did not reach one in {MOST_STEPS} steps")

    return run
