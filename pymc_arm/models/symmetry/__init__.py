"""Symmetries of a posterior: found by its values, and used so that one mode stands for all."""
