"""Experiments on gradient descent on a fixed sample."""
