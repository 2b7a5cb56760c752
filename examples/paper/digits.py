"""Particles of a Boltzmann machine as images, halfway and at the end: the paper's digits.

python -m examples.paper.digits --quick
python -m examples.paper.digits --setting reduced
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from examples.paper.common import parse, save
from examples.paper.problems import small_machine, trained_machine
from pymc_arm import Settings
from pymc_arm.algorithm.arm import initialize, iterate
from pymc_arm.families.rbm import RBMPath

SHOWN = 8


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(__doc__, arguments)
    quick = options.setting == "quick"
    problem = small_machine(16) if quick else trained_machine("PCD")
    particles = {"quick": 100, "reduced": 200, "full": 1000}[options.setting]
    path = RBMPath(problem.machine, data=problem.data)
    rng = np.random.default_rng(options.seed)
    wanted = (16, 40, path.length) if quick else (200, 500, path.length)
    reached = {}
    state = initialize(path, rng, particles)
    for latest, _ in iterate(path, rng, state, Settings()):
        state = latest
        if state.position in wanted:
            reached[state.position] = state
    figure, axes = plt.subplots(len(wanted), SHOWN, figsize=(8, 3.6), layout="constrained")
    for line, position in zip(axes, wanted, strict=True):
        at = reached[position]
        chosen = rng.choice(len(at.log_weights), size=SHOWN, p=np.exp(at.log_weights))
        for axis, particle in zip(line, chosen, strict=True):
            image = np.full(path.length, 0.6)
            image[path.order[:position]] = 1.0 - at.particles.bits[particle]
            axis.imshow(image.reshape(problem.side, problem.side), cmap="gray", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(f"n = {position}", fontsize=9)
        print(f"n = {position:4d}: log Z_n = {at.log_evidence:9.2f}")
    figure.suptitle(
        f"{problem.name}: particles of ARM with n visible units (black: on, white: off, grey: "
        "not in yet)",
        fontsize=9,
    )
    print(f"log Z = {state.log_evidence:.2f}, reference {problem.log_evidence:.2f}")
    save(figure, options.output / "digits.png")


if __name__ == "__main__":
    main()
