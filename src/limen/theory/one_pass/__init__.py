"""One-pass SGD: a fresh sample at every step."""
