"""Any PyMC model as a path: its terms, their order, integrals and moves."""
