"""Population averages of one-pass SGD: one file for each way to compute them."""
