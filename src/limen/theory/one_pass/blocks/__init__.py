"""One-pass SGD on inputs of several variances: one copy of every overlap per eigenspace."""
