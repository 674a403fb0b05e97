"""Full-batch gradient descent: its mean-field theory, and what becomes of it at finite dimension."""

from limen.theory.descent.escape import average_run, finite_size
from limen.theory.descent.solve import solve

__all__ = ["average_run", "finite_size", "solve"]
