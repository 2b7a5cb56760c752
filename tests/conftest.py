"""Which tests run, and what the end of a run says about them."""

from pathlib import Path

GROUPS = ("statistical", "slow", "data")
# Tests of what is NumPy, SciPy and numba alone. They do not depend on the version of PyMC, so that
# CI runs them with one (--touching-pymc leaves them out); tests/test_architecture.py keeps them so.
WITHOUT_PYMC = (
    "algorithm",
    "baselines/test_baseline_hamiltonian.py",
    "baselines/test_baseline_probit.py",
    "baselines/test_baseline_rbm.py",
    "estimation/test_approximation.py",
    "estimation/test_convergence.py",
    "estimation/test_covariance.py",
    "estimation/test_estimate.py",
    "estimation/test_judge.py",
    "estimation/test_ladder.py",
    "estimation/test_location_scale.py",
    "estimation/test_mixtures.py",
    "estimation/test_reciprocal.py",
    "estimation/test_refine.py",
    "estimation/test_starts.py",
    "estimation/test_walks.py",
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
)


def pytest_addoption(parser):
    text = "leave out tests that do not depend on the version of PyMC"
    parser.addoption("--touching-pymc", action="store_true", help=text)


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--touching-pymc"):
        own = Path(__file__).parent
        return True if collection_path in {own / name for name in WITHOUT_PYMC} else None
    return None


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
