"""Experiments on learning, then overfitting."""
