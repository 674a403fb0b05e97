"""XOR and Gaussian mixtures: their flows, fixed points, and blocks of Hessian and gradient."""
