"""ARM where PyMC's users look for SMC kernels: ``pm.sample_smc(kernel=pymc_arm.ARM)``.

PyMC drives a kernel stage by stage while its ``beta`` is below one. Here a stage is a step of
Algorithm 2, and ``beta`` is the share of the plan that is done.
"""

from typing import Any

import numpy as np
import pymc as pm
from pymc.smc.kernels import SMC_KERNEL

from pymc_arm.algorithm.arm import initialize, step
from pymc_arm.algorithm.settings import Settings
from pymc_arm.models.compiled import ModelPath, compile_model
from pymc_arm.running.chains import equally_weighted

__all__ = ["ARM"]


class ARM(SMC_KERNEL):
    """Adaptive Resample-Move as a kernel of ``pm.sample_smc``.

    Parameters
    ----------
    draws, start, model, random_seed, threshold, compile_kwargs
        As PyMC passes them; ``threshold`` is gamma_thr. ``start`` is not used: every particle
        starts at a draw from the prior, or log Z would be wrong.
    order
        The order of the variables, as in :func:`pymc_arm.sample`.
    **settings
        Further fields of :class:`pymc_arm.Settings`.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    ...     idata = pm.sample_smc(
    ...         200, kernel=pymc_arm.ARM, chains=1, random_seed=1, progressbar=False
    ...     )
    >>> "p" in idata["posterior"]
    True
    """

    def __init__(
        self,
        draws: int = 2000,
        start: Any = None,
        model: pm.Model | None = None,
        random_seed: Any = None,
        threshold: float = 0.7,
        compile_kwargs: dict[str, Any] | None = None,
        order: Any = "auto",
        **settings: Any,
    ) -> None:
        super().__init__(draws, start, model, random_seed, threshold, compile_kwargs)
        self._given = {"threshold": threshold, **settings}
        Settings.of(self._given)  # wrong ones are refused before anything is compiled
        self.order = order
        self.model = pm.modelcontext(model)
        self._path: ModelPath | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the path behind: a worker makes its own."""
        return {**self.__dict__, "_path": None}

    def setup_kernel(self) -> None:
        """Make the path, and draw the first particles."""
        if self._path is None:
            self._path = compile_model(self.model, order=self.order)
        self.settings = self._path.settings(**self._given)
        self.state = initialize(self._path, self.rng, self.draws)
        self.log_marginal_likelihood = self.state.log_evidence
        self.tempered_posterior = self.state.particles

    def update_beta_and_weights(self) -> None:
        """Take one step of Algorithm 2."""
        assert self._path is not None
        self.iteration += 1
        path = self._path
        if not path.finished(self.state.position):
            self.state, _ = step(path, self.rng, self.state, self.settings)
        self.log_marginal_likelihood = self.state.log_evidence
        position, length = self.state.position, max(len(path.plan.steps), 1)
        self.beta = (position.step - 1 + position.fraction) / length
        if path.finished(position) or self.state.log_evidence == -np.inf:
            self.beta = 1.0
            final = equally_weighted(
                path, self.rng, self.state, self.draws, self.settings
            ).particles
            self.tempered_posterior = self.tempered_posterior if final is None else final

    def resample(self) -> None:
        """Do nothing: the step has resampled."""

    def mutate(self) -> None:
        """Do nothing: the step has moved."""

    def sample_stats(self) -> dict[str, float]:
        """Return log Z so far and the share of the plan that is done."""
        return {"log_marginal_likelihood": self.log_marginal_likelihood, "beta": self.beta}

    def sample_settings(self) -> dict[str, Any]:
        """Return the settings, for the result's attributes."""
        return {"_n_draws": self.draws, "_threshold": self.threshold, "_kernel": "ARM"}
