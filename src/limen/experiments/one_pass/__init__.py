"""Experiments on one-pass SGD."""
