"""Every theory, in the order in which they are tried."""

from limen.method import Method
from limen.theory.attention.equiangular_problem import equiangular_tokens
from limen.theory.descent.entrywise import entrywise
from limen.theory.descent.solve import descent
from limen.theory.effective.effective_ode import effective_ode
from limen.theory.effective.mixtures.mixture_flow import mixture_flow
from limen.theory.effective.mixtures.xor_flow import xor_flow
from limen.theory.flow.solve import gaussian_model_flow
from limen.theory.kernel.random_features_problem import random_features_problem
from limen.theory.kernel.ridge_problem import ridge_problem
from limen.theory.one_pass.block_ode import block_overlap_ode
from limen.theory.one_pass.overlap_ode import overlap_ode
from limen.theory.one_pass.phase_retrieval import phase_retrieval

THEORIES: tuple[Method, ...] = (
    phase_retrieval,
    overlap_ode,
    block_overlap_ode,
    descent,
    entrywise,
    gaussian_model_flow,
    ridge_problem,
    random_features_problem,
    equiangular_tokens,
    effective_ode,
    xor_flow,
    mixture_flow,
)
