"""Latent Gaussian fields, seen through their conditional distribution given few parameters."""
