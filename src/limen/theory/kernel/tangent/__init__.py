"""Tangent kernels, linearised and lazy training."""
