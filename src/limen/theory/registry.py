"""Every theory, in the order in which they are tried."""

from limen.method import Method
from limen.theory.one_pass.phase_retrieval import phase_retrieval

THEORIES: tuple[Method, ...] = (phase_retrieval,)
