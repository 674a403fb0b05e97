"""Thresholds in the number of samples: where a feature becomes learnable, and what the Hessian shows of it."""
