"""Finite-size training, plainly run: the second witness beside theory, which it never imports."""
