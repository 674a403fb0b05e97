"""The theory of `predict` for gradient flow as a function of the chapter: it answers with a result."""

from limen.method import answers
from limen.theory.flow.solve import gaussian_model_flow

solve = answers("theory", gaussian_model_flow.citations, gaussian_model_flow.name)(gaussian_model_flow.solve)
