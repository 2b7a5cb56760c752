"""From particles to one number, its error and a verdict. NumPy and SciPy only."""
