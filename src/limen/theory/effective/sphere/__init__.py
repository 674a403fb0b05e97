"""Single-index models on the sphere: populations, moments, drift."""
