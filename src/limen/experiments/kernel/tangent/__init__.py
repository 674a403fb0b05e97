"""Networks near their start: the tangent kernel and lazy training."""
