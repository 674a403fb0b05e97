"""Tokens on the circle: densities and their flow."""
