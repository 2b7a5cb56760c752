"""Where the time of a run goes, by the steps of the algorithm, and how far it is from its floor.

``python -m benchmarks profile NAME ...`` runs each model of the suite twice in this process, all
chains one after another. Of the second call, with everything compiled, it prints the processor time
of each step, and how much of it was spent in evaluations of the model's terms and of their
gradients, which are the floor: the same estimate can't be had without them. A third call is traced
for memory.
"""

import argparse
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pymc_arm
from benchmarks.suite import PROBLEMS
from pymc_arm import model_call
from pymc_arm.models.compiled import ModelPath
from pymc_arm.models.density import LogDensity
from pymc_arm.models.graph.gradient import Gradient
from pymc_arm.models.path import GenericPath
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.reference import ReferencePath
from pymc_arm.running import run

__all__ = ["COMMANDS", "Stopwatch"]

DENSITY = "density"
STAGES = (
    (model_call, "start_model", "look up the compiled model"),
    (PriorSampler, "draw", "draw from the prior"),
    (GenericPath, "advance", "choose the next step"),
    (GenericPath, "move", "move"),
    (GenericPath, "smooth", "smooth"),
    (GenericPath, "augment", "augment"),
    (ModelPath, "posterior", "posterior draws"),
    (ReferencePath, "move", "move"),
    (run, "refine_chains", "refine"),
    (run, "search_modes", "search for missed modes"),
    (model_call, "make_inference_tree", "build the result"),
    (LogDensity, "terms", DENSITY),
    (LogDensity, "sum", DENSITY),
    (LogDensity, "terms_at", DENSITY),
    (LogDensity, "sum_at", DENSITY),
    (Gradient, "__call__", DENSITY),
)
REST = "weights, resampling and all else"


class Stopwatch:
    """Processor time by stage, exclusive of the stages inside of it, and that of densities."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.density: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._stages = [REST]
        self._since = time.process_time()

    def watch(self, owner: Any, name: str, stage: str) -> Callable[[], None]:
        """Measure a function from now on; what is returned ends that."""
        function = getattr(owner, name)

        def measured(*arguments: Any, **options: Any) -> Any:
            self._switch()
            self._stages.append(stage)
            self.calls[stage] += 1
            try:
                return function(*arguments, **options)
            finally:
                self._switch()
                self._stages.pop()

        setattr(owner, name, measured)
        return lambda: setattr(owner, name, function)

    def _switch(self) -> None:
        now = time.process_time()
        outer = next(stage for stage in reversed(self._stages) if stage != DENSITY)
        kind = self.density if self._stages[-1] == DENSITY else self.own
        kind[outer] += now - self._since
        self._since = now


def profile(name: str) -> None:
    """Run a model, and print where the time goes."""
    model = PROBLEMS[name].build()

    def sample() -> float:
        started = time.process_time()
        pymc_arm.sample(model, cores=1, random_seed=1, progressbar=False)
        return time.process_time() - started

    first = sample()
    watch = Stopwatch()
    restore = [watch.watch(*stage) for stage in STAGES]
    later = sample()
    for undo in restore:
        undo()
    tracemalloc.start()
    sample()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    floor = watch.density.total()
    print(f"\n{name}: {later:.2f} s, after {first:.2f} s for the first call (processor time)")
    print("| step | share | of which densities | calls |\n|---|---|---|---|")
    for stage in {REST: None} | {stage: None for _, _, stage in STAGES if stage != DENSITY}:
        total = watch.own[stage] + watch.density[stage]
        if total > 0.005 * later:
            share, inside = total / later, watch.density[stage] / total
            print(f"| {stage} | {share:.1%} | {inside:.0%} | {watch.calls[stage] or ''} |")
    calls = watch.calls[DENSITY]
    print(
        f"densities: {floor:.2f} s in {calls} calls of {1e6 * floor / calls:.0f} us; "
        f"all / floor = {later / floor:.2f}; largest memory {peak / 1e6:.1f} MB"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks profile")
    parser.add_argument("names", nargs="+", choices=sorted(PROBLEMS), metavar="NAME")
    for name in parser.parse_args(arguments).names:
        profile(name)


COMMANDS = {"profile": main}
