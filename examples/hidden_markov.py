"""Are there two regimes? A hidden Markov model, its states enumerated one after another.

Changes of state are discrete variables of an ordinary PyMC model: nothing is marginalised by hand.
Each comes in with its own observation, with the sum over its values done exactly.
"""

import argparse

import numpy as np
import pymc as pm

import pymc_arm


def simulate(length: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    states = [0]
    for _ in range(length - 1):
        states.append(states[-1] if rng.random() < 0.9 else 1 - states[-1])
    return np.array([-1.0, 1.0])[states] + 0.7 * rng.normal(size=length)


def main(draws: int) -> None:
    y = simulate(6 if draws < 500 else 40)
    with pm.Model() as regimes:
        stay = pm.Beta("stay", 9.0, 1.0)
        center = pm.HalfNormal("center", 2.0)
        first = pm.Bernoulli("first", 0.5)
        changes = pm.Bernoulli("changes", 1 - stay, shape=len(y) - 1)
        state = pm.math.concatenate([[first], first + pm.math.cumsum(changes)]) % 2
        pm.Normal("y", (2 * state - 1) * center, 0.7, observed=y)
    with pm.Model() as one:
        center = pm.Normal("center", 0.0, 2.0)
        spread = pm.HalfNormal("spread", 2.0)
        pm.Normal("y", center, spread, observed=y)

    print(
        pymc_arm.bayes_factor(
            regimes,
            one,
            names=("two regimes", "one"),
            draws=draws,
            random_seed=1,
            progressbar=False,
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=50 if parser.parse_args().quick else 500)
