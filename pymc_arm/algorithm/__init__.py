"""Algorithms 1 and 2 of the paper, over any path. NumPy only."""
