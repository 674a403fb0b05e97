"""Learning, then overfitting: gradient flow of wide two-layer networks in the Gaussian model."""
