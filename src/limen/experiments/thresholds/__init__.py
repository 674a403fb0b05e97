"""Experiments on thresholds of feature learning."""
