"""Limits as the sizes go to infinity. Nothing here imports `limen.simulation`."""
