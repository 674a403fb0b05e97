"""Every simulator, in the order in which they are tried."""

from limen.method import Method
from limen.simulation.attention.self_attention import attention_particles
from limen.simulation.gaussian_model import sampled_gaussian_model
from limen.simulation.gradient_descent import gradient_descent
from limen.simulation.gradient_flow import gradient_flow
from limen.simulation.minibatch_sgd import minibatch_sgd
from limen.simulation.one_pass_sgd import one_pass_sgd
from limen.simulation.overlap_chain import overlap_chain
from limen.simulation.regression_flow import random_features_simulation, ridge_flow_simulation

# overlap_chain answers the same problems as one_pass_sgd and stands after it: by name, or where d is too large.
# minibatch_sgd answers the same problems as gradient_descent and stands after it: it is used by name.
# sampled_gaussian_model answers problems of gradient_flow and gradient_descent, stands after both and is used by name.
SIMULATORS: tuple[Method, ...] = (
    one_pass_sgd,
    overlap_chain,
    gradient_descent,
    minibatch_sgd,
    gradient_flow,
    sampled_gaussian_model,
    ridge_flow_simulation,
    random_features_simulation,
    attention_particles,
)
