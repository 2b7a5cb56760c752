"""A million observations, and ten thousand variables."""

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import Settings, TimeLimitError
from pymc_arm.models.compiled import compile_model
from pymc_arm.running import memory
from pymc_arm.running.memory import check_memory, estimate_memory

GIGABYTE = 1024**3


@pytest.mark.slow
def test_a_million_observations():
    rng = np.random.default_rng(1)
    x = rng.normal(size=1_000_000)
    y = 0.3 + 0.5 * x + rng.normal(size=len(x))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 1)
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", intercept + slope * x, 1, observed=y)
    assert estimate_memory(compile_model(model), 1000, Settings(), 1) < GIGABYTE
    options = {"chains": 1, "cores": 1, "refine": False, "random_seed": 1, "progressbar": False}
    tree = pymc_arm.sample(model, draws=20, **options)
    design = np.stack([np.ones_like(x), x])
    precision, projected = np.eye(2) + design @ design.T, design @ y
    exact = -0.5 * len(y) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    exact += 0.5 * (projected @ np.linalg.solve(precision, projected) - y @ y)
    error = tree.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 5 * tree.attrs["log_marginal_likelihood_se"]
    assert tree.attrs["log_marginal_likelihood_se"] < 2


@pytest.mark.slow
def test_ten_thousand_variables(monkeypatch):
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=10_000)
        pm.Normal("y", x, 1, observed=np.random.default_rng(1).normal(size=10_000))
    path = compile_model(model, backend="numpy")
    settings = Settings()
    needed = estimate_memory(path, 1000, settings, 1)
    # A covariance alone takes 0.75 GiB.
    assert 5 * GIGABYTE < needed < 20 * GIGABYTE
    monkeypatch.setattr(memory, "available_memory", lambda: needed - 1)
    with pytest.raises(MemoryError, match=r"draws=1000 particles .* Use draws=999 or fewer"):
        check_memory(path, 1000, settings, 1)
    monkeypatch.setattr(memory, "available_memory", lambda: GIGABYTE)
    with pytest.raises(MemoryError, match="Use a machine with more memory, or a model of fewer"):
        check_memory(path, 10, settings, 1)
    monkeypatch.undo()
    with pytest.raises(TimeLimitError, match="Give it more time, or fewer draws"):
        pymc_arm.sample_path(path, 10, cores=1, time_limit=1.0, progressbar=False)
