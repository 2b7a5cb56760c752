"""The direct call, for users who have a machine and no PyMC model."""

from typing import Any, Literal

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.arguments import check_choice
from pymc_arm.families.rbm.machine import Machine
from pymc_arm.families.rbm.path import RBMPath
from pymc_arm.families.rbm.pilots import tempered_path
from pymc_arm.sampling import sample_path

__all__ = ["make_path", "rbm"]


def rbm(
    W: Any,
    a: Any = None,
    b: Any = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    data: Any = None,
    path: Literal["auto", "tempered", "units"] = "auto",
    gibbs_steps: int | None = None,
    threads: int | None = None,
    layer: Literal["visible", "hidden"] | None = None,
    order: str | np.ndarray | None = None,
    lookahead: str | np.ndarray | None = None,
    strength: float | None = None,
    reseed_transitions: int | None = None,
    **kwargs: Any,
) -> Any:
    """Estimate log Z of a restricted Boltzmann machine, and draw from it.

    Parameters
    ----------
    W, a, b
        As of :class:`Machine`; ``W`` may also be a machine itself.
    draws
        R, the number of particles in each chain.
    chains
        The number of independent runs, from which the standard error comes.
    random_seed
        Seed of everything random.
    data
        Training data, (example, visible unit), zeros and ones, from which base rates are taken.
        Without data base rates come from runs of the machine itself.
    path
        ``"tempered"`` begins at base rates, and all weights grow to those of the machine; see
        :class:`TemperedRBMPath`. ``"units"`` is the paper's: units come in one at a time; see
        :class:`RBMPath`. ``"auto"`` is the first, unless an option of the second or
        ``variant="reseed"`` is given.
    gibbs_steps
        Gibbs steps in a move: by default one on the tempered path, and the paper's ten otherwise.
    threads, layer, order, lookahead, strength, reseed_transitions
        Options of :class:`RBMPath`; the tempered path has the first of them.
    **kwargs
        Passed to :func:`pymc_arm.sampling.sample_path`, the settings of the run among them. Those
        of ``variant="arm"`` have other defaults than the paper's threshold of 0.7 and 3 rounds:
        there are no generate rounds, and the threshold is 0.997 on the tempered path, 0.97 on the
        other.

    Returns
    -------
    InferenceData or DataTree
        As of ``pymc_arm.sample``; ``posterior`` holds bits, (chain, draw, unit).

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.families.rbm import Machine
    >>> machine = Machine([[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> found = pymc_arm.rbm(machine, draws=200, random_seed=1, progressbar=False)
    >>> error = found.attrs["log_marginal_likelihood"] - machine.exact_log_evidence()
    >>> bool(abs(error) < 0.1)
    True
    """
    if isinstance(W, Machine) and (a is not None or b is not None):
        raise ValueError("W is a Machine, which has its biases: leave a and b out.")
    machine = W if isinstance(W, Machine) else Machine(W, a, b)
    options: dict[str, Any] = {
        "gibbs_steps": gibbs_steps,
        "threads": threads,
        "layer": layer,
        "order": order,
        "lookahead": lookahead,
        "strength": strength,
        "reseed_transitions": reseed_transitions,
    }
    chosen = make_path(
        machine,
        data=data,
        path=path,
        variant=kwargs.get("variant", "arm"),
        random_seed=random_seed,
        **{name: value for name, value in options.items() if value is not None},
    )
    return sample_path(chosen, draws=draws, chains=chains, random_seed=random_seed, **kwargs)


def make_path(
    machine: Machine,
    *,
    data: Any = None,
    path: Literal["auto", "tempered", "units"] = "auto",
    variant: str = "arm",
    random_seed: Any = None,
    name: str = "x",
    gibbs_steps: int | None = None,
    threads: int | None = None,
    **options: Any,
) -> Path:
    """Return the path of a machine; arguments are those of :func:`rbm` and :class:`RBMPath`."""
    check_choice("path", path, ("auto", "tempered", "units"))
    if path == "auto":
        path = "units" if options or variant == "reseed" else "tempered"
    shared: dict[str, Any] = {"threads": threads, "name": name}
    if gibbs_steps is not None:
        shared["gibbs_steps"] = gibbs_steps
    if path == "units":
        return RBMPath(machine, data=data, random_seed=random_seed, **options, **shared)
    if options:
        raise ValueError(f'{", ".join(options)} have a meaning only with path="units".')
    return tempered_path(machine, data, **shared)
