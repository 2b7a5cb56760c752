"""The path of any PyMC model: terms, scopes, plan, integrals and moves."""
