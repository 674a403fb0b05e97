"""Full-batch gradient descent on n samples in d dimensions, n/d fixed: its dynamical mean-field theory."""
