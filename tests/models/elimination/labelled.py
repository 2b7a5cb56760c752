"""A model with three labels, one of which is in the prior of a variable that is left."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import expit, log_expit

from pymc_arm.models.compiled import compile_model

DATA = np.array([0.4, -1.2, 2.0])
WIDTHS = np.array([0.3, 3.0])


@cache
def path():
    """Return the path of the model with its labels summed."""
    with pm.Model() as model:
        share = pm.Beta("share", 1, 1)
        mean = pm.Normal("mean", 0, 2, shape=2)
        label = pm.Bernoulli("label", share, shape=3)
        pm.Normal("effect", 0.0, pt.switch(label[0], WIDTHS[1], WIDTHS[0]))
        pm.Normal("y", mean[label], 1, observed=DATA)
    # By name: with "auto" the effect, which no data depend on, would be left out.
    return compile_model(model, marginalize=["label"])


def some_points(size=6):
    """Return points (log odds of the share, two means, effect)."""
    return np.random.default_rng(1).normal(size=(size, 4))


def log_joint(points):
    """Return log p(label) p(effect | label) and log p(y | label), (points, element, label)."""
    log_odds, means, effect = points[:, 0], points[:, 1:3], points[:, 3]
    prior = np.repeat(np.stack([log_expit(-log_odds), log_expit(log_odds)], 1)[:, None], 3, axis=1)
    prior[:, 0] += stats.norm.logpdf(effect[:, None], 0, WIDTHS)
    return prior, stats.norm.logpdf(DATA[:, None], means[:, None], 1)


def label_probabilities(points):
    """Return the probability of each label being one, (points, 3)."""
    prior, likelihood = log_joint(points)
    odds = prior + likelihood
    return expit(odds[..., 1] - odds[..., 0])
