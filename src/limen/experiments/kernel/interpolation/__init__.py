"""Experiments on fits that pass through every label."""
