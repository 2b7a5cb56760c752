"""Model families with a path of their own; each can be deleted without touching the algorithm."""

from pymc_arm.families.registry import Family, Match, known_families, register, unregister

__all__ = ["Family", "Match", "known_families", "register", "unregister"]
