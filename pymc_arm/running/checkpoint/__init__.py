"""Checkpoints: the states of chains on disk."""
