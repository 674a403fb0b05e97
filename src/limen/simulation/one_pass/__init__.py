"""One-pass SGD in d dimensions, and the exact chain of its overlaps."""
