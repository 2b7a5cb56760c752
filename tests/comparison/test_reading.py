"""Log Z is read from whatever a run has left behind."""

import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_arm
from pymc_arm._compat import load, make_tree
from pymc_arm.comparison.factors import bayes_factor
from pymc_arm.comparison.reading import read_attributes, read_evidence, read_seconds
from pymc_arm.comparison.table import compare
from pymc_arm.results import Evidence, pool
from pymc_arm.testing import GaussianChain
from tests.comparison.exact_models import location


def stored(values, chains, dims=("chain",)):
    """Return a result that stores log Z as given, with a posterior of some chains."""
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((chains, 5)))})
    statistics = xr.Dataset({"log_marginal_likelihood": (dims, values)})
    statistics.attrs["_t_sampling"] = 1.5
    return make_tree({"posterior": posterior, "sample_stats": statistics}, {})


def ragged(*rows):
    array = np.empty(len(rows), dtype=object)
    array[:] = [list(row) for row in rows]
    return array


NAN = math.nan
SHAPES = {
    "floats": ([-1.0, -1.2], 2, ("chain",)),
    "rows of stages": ([[NAN, NAN, -1.0], [NAN, NAN, -1.2]], 2, ("chain", "draw")),
    "object rows": (np.array([[NAN, -1.0], [NAN, -1.2]], object), 2, ("chain", "stage")),
    "lists": (ragged([NAN, -1.0], [NAN, NAN, -1.2]), 2, ("chain",)),
    "lists as draws": (ragged([NAN, -1.0], [NAN, NAN, -1.2])[None], 2, ("chain", "draw")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_stored_shapes_of_sample_smc(shape):
    values, chains, dims = SHAPES[shape]
    evidence = read_evidence(stored(values, chains, dims))
    assert evidence == pool([-1.0, -1.2], [0.0, 0.0])


@pytest.mark.parametrize("dims", [("chain",), ("chain", "draw")])
def test_stages_of_one_chain_are_not_chains(dims):
    values = np.array([NAN, NAN, -1.0])
    result = stored(values if len(dims) == 1 else values[None], 1, dims)
    evidence = read_evidence(result)
    assert evidence.log_evidence == -1.0
    assert evidence.standard_error == math.inf
    table = compare({"a": result, "b": Evidence(-2.0, 0.1, 3)})
    assert table["settled"].tolist() == [False, True]
    assert table.loc["a", "seconds"] == 1.5


@pytest.mark.parametrize("chains", [1, 2])
def test_sample_smc_itself(chains):
    model, exact = location(False)
    with model, pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc.smc.sampling.run_convergence_checks", lambda *_: [])
        result = pm.sample_smc(200, chains=chains, cores=1, random_seed=1, progressbar=False)
    assert read_evidence(result).log_evidence == pytest.approx(exact, abs=0.5)
    factor = bayes_factor(result, Evidence(exact, 0.0, math.inf))
    assert math.isinf(factor.standard_error) == (chains == 1)


def test_read_back_from_a_file(tmp_path):
    result = pymc_arm.sample_path(GaussianChain([0.1, 0.2]), draws=20, progressbar=False)
    result.to_netcdf(str(tmp_path / "result.nc"))
    back = load(str(tmp_path / "result.nc"))
    assert read_evidence(back) == read_evidence(result)
    # Some ways of reading lose the attributes of the root; the group has a copy.
    back.attrs.clear()
    assert read_evidence(back) == read_evidence(result)


def test_nothing_to_read():
    with pytest.raises(ValueError, match="no log_marginal_likelihood"):
        read_evidence(make_tree({"posterior": xr.Dataset()}, {}))
    with pytest.raises(ValueError, match="nothing but NaN"):
        read_evidence(stored([NAN, NAN], 2))


def test_an_evidence_has_no_attributes_and_no_time():
    exact = Evidence(-1.0, 0.1, 3)
    assert read_evidence(exact) is exact
    assert read_attributes(exact) == {}
    assert math.isnan(read_seconds(exact))
    assert math.isnan(read_seconds(None))
    assert read_seconds(stored([-1.0, -1.2], 2)) == 1.5
