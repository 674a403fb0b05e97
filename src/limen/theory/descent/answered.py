"""The theory of `predict` for gradient descent as a function of the chapter: it answers with a result."""

from limen.method import answers
from limen.theory.descent.solve import descent

solve = answers("theory", descent.citations, descent.name)(descent.solve)
