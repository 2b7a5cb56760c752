"""Evaluating PyTensor graphs on batches of particles."""
