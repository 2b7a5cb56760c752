"""The direct call, for users who have a machine and no PyMC model."""

from typing import Any, Literal

import numpy as np

from pymc_arm.families.rbm.machine import Machine
from pymc_arm.families.rbm.path import RBMPath
from pymc_arm.sampling import sample_path

__all__ = ["rbm"]

# Resample early, and move what was copied: see docs/guides/rbm.md for the paper's 0.7 and 3.
ARM_SETTINGS = {"threshold": 0.97, "max_rounds": 0}


def rbm(
    W: Any,
    a: Any = None,
    b: Any = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    layer: Literal["visible", "hidden"] = "visible",
    order: str | np.ndarray | None = None,
    data: Any = None,
    lookahead: str | np.ndarray | None = "auto",
    strength: float = 0.2,
    gibbs_steps: int = 10,
    reseed_transitions: int = 1500,
    threads: int | None = None,
    **kwargs: Any,
) -> Any:
    """Estimate log Z of a restricted Boltzmann machine, and draw from it.

    Parameters
    ----------
    W
        Weights, (visible unit, hidden unit), or a :class:`Machine`.
    a, b
        Biases of the visible and of the hidden units; zero by default.
    draws
        R, the number of particles in each chain.
    chains
        The number of independent runs, from which the standard error comes.
    random_seed
        Seed of everything random.
    lookahead
        What is assumed of units that are not in yet; see :class:`RBMPath`. ``"auto"`` is ``"data"``
        if there are data, else None, the paper's path.
    layer, order, data, strength, gibbs_steps, reseed_transitions, threads
        How units come in; see :class:`RBMPath`.
    **kwargs
        Passed to :func:`pymc_arm.sampling.sample_path`, the settings of the run among them. For
        ``variant="arm"`` the defaults are ``threshold=0.97`` and ``max_rounds=0``: resample early,
        and move what was copied, which leaves Z-hat unbiased. The paper's are 0.7 and 3.

    Returns
    -------
    InferenceData or DataTree
        As of ``pymc_arm.sample``; ``posterior`` holds bits, (chain, draw, unit).
    """
    if isinstance(W, Machine) and (a is not None or b is not None):
        raise ValueError("W is a Machine, which has its biases: leave a and b out.")
    machine = W if isinstance(W, Machine) else Machine(W, a, b)
    if isinstance(lookahead, str) and lookahead == "auto":
        lookahead = None if data is None else "data"
    path = RBMPath(
        machine,
        layer=layer,
        order=order,
        data=data,
        lookahead=lookahead,
        strength=strength,
        gibbs_steps=gibbs_steps,
        reseed_transitions=reseed_transitions,
        threads=threads,
        random_seed=random_seed,
    )
    if kwargs.get("variant", "arm") == "arm":
        kwargs = {**ARM_SETTINGS, **kwargs}
    return sample_path(path, draws=draws, chains=chains, random_seed=random_seed, **kwargs)
