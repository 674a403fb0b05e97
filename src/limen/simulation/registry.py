"""Every simulator, in the order in which they are tried."""

from limen.method import Method
from limen.simulation.gradient_descent import gradient_descent
from limen.simulation.minibatch_sgd import minibatch_sgd
from limen.simulation.one_pass_sgd import one_pass_sgd
from limen.simulation.regression_flow import random_features_simulation, ridge_flow_simulation

# minibatch_sgd answers the same problems as gradient_descent and stands after it: it is used by name.
SIMULATORS: tuple[Method, ...] = (
    one_pass_sgd,
    gradient_descent,
    minibatch_sgd,
    ridge_flow_simulation,
    random_features_simulation,
)
