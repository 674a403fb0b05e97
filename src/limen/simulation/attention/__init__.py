"""Attention as interacting particles on the sphere."""
