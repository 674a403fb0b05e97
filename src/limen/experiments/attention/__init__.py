"""Experiments on attention and depth."""
