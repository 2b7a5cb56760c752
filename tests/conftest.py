"""Which tests run, and what the end of a run says about them.

CI runs all tests with PyMC 5, and with PyMC 6 (``--touching-pymc``) those whose outcome a version
of PyMC could change. Three kinds are left out there:

- files whose tests never reach PyMC: ``WITHOUT_PYMC``;
- files about the benchmarks, which are run with one version: ``OF_BENCHMARKS``;
- tests, or single parameters of them, that are marked ``one_version``: PyMC has no part in them, or
  they repeat with more seeds, replicates or sizes what another test asserts with both versions.
  What PyMC has a part in, the terms of a model and its prior draws, is the same in all repetitions,
  and the rest is NumPy.
"""

from pathlib import Path

GROUPS = ("statistical", "slow", "data")
# Tests of what is NumPy, SciPy and numba alone; tests/test_architecture.py keeps them so.
WITHOUT_PYMC = (
    "algorithm",
    "estimation/test_approximation.py",
    "estimation/test_climbs.py",
    "estimation/test_convergence.py",
    "estimation/test_covariance.py",
    "estimation/test_estimate.py",
    "estimation/test_judge.py",
    "estimation/test_ladder.py",
    "estimation/test_location_scale.py",
    "estimation/test_mixtures.py",
    "estimation/test_reciprocal.py",
    "estimation/test_refine.py",
    "estimation/test_spaces.py",
    "estimation/test_starts.py",
    "estimation/test_trajectories.py",
    "families/gpc/test_gpc_ep.py",
    "families/gpc/test_gpc_kernels.py",
    "families/gpc/test_gpc_path.py",
    "families/gpc/test_gpc_validation.py",
    "families/rbm/test_rbm_data.py",
    "families/rbm/test_rbm_kernels.py",
    "families/rbm/test_rbm_machine.py",
    "families/rbm/test_rbm_order.py",
    "families/rbm/test_rbm_path.py",
    "families/rbm/test_rbm_rows.py",
    "families/test_philox.py",
    "families/test_sharing_threads.py",
    "models/elimination/test_graph.py",
    "models/elimination/test_sum_product.py",
    "models/reference/test_hamiltonian.py",
    "models/reference/test_laplace.py",
    "models/reference/test_polish.py",
    "models/reference/test_tempered.py",
    "models/test_coloring.py",
    "models/test_integrate.py",
    "models/test_moves.py",
    "models/test_pieces.py",
    "running/test_placement.py",
    "running/test_processors.py",
    "running/test_progress.py",
)
# Whether the truths of the benchmarks are right, and whether their tables are read and written.
OF_BENCHMARKS = (
    "baselines",
    "test_adversarial.py",
    "test_limited.py",
    "test_literature.py",
    "test_peers.py",
    "test_wild_benchmark.py",
)


def pytest_addoption(parser):
    text = "leave out tests that do not depend on the version of PyMC"
    parser.addoption("--touching-pymc", action="store_true", help=text)


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--touching-pymc"):
        own, left_out = Path(__file__).parent, (*WITHOUT_PYMC, *OF_BENCHMARKS)
        return True if collection_path in {own / name for name in left_out} else None
    return None


def pytest_collection_modifyitems(config, items):
    if config.getoption("--touching-pymc"):
        left_out = [item for item in items if item.get_closest_marker("one_version")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("one_version")]


def pytest_terminal_summary(terminalreporter):
    seconds = dict.fromkeys(("fast", *GROUPS), 0.0)
    counts = dict.fromkeys(seconds, 0)
    # Reports of fixtures have no category.
    for category in ("", "passed", "failed"):
        for report in terminalreporter.getreports(category):
            for group in [name for name in GROUPS if name in report.keywords] or ["fast"]:
                seconds[group] += report.duration
                counts[group] += report.when == "call"
    groups = [f"{name} {counts[name]} in {seconds[name]:.0f} s" for name in seconds]
    terminalreporter.write_line(f"tests by group, all workers together: {', '.join(groups)}")
