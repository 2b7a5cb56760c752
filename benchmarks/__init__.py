"""Measurements of the estimator against models whose evidence is known."""
