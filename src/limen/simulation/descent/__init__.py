"""Training on a fixed sample in d dimensions, again and again the same."""
