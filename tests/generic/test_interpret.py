"""The interpreter of batched graphs."""

import numpy as np
import pytensor.tensor as pt

from pymc_arm.generic.interpret import compile_with_numpy


def test_what_is_bound_is_evaluated_once():
    points, scale, shift = pt.dmatrix("points"), pt.dvector("scale"), pt.dscalar("shift")
    program = compile_with_numpy(
        [points, scale, shift], pt.exp(points * pt.log(scale)) + pt.sqrt(shift), pt.sqrt(shift)
    )
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(5, 3)), rng.uniform(1, 2, size=3), np.array(4.0)
    bound = program.bind(*inputs[1:])
    assert len(bound.instructions) < len(program.instructions)
    for result, expected in zip(bound(inputs[0]), program(*inputs), strict=True):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_allclose(bound(inputs[0])[0], inputs[1] ** inputs[0] + 2.0)
    assert bound(inputs[0])[1] == 2.0
    (alone,) = program.bind(*inputs[1:], outputs=[1])(inputs[0])
    assert alone == 2.0
