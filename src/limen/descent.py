"""Full-batch gradient descent: its mean-field theory, and what becomes of it at finite dimension."""

from limen.method import answers
from limen.theory.descent.escape import average_run, finite_size
from limen.theory.descent.solve import descent

# The theory of `predict` by name, its result among those of the chapter.
solve = answers("theory", descent.citations, descent.name)(descent.solve)

__all__ = ["average_run", "finite_size", "solve"]
