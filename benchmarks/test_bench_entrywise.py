"""Cost of the theory of entrywise rules: 30 steps of Adam, one neuron, one set of 8192 samples and entries."""

import limen
from limen.precision import in_double
from limen.theory.descent.entrywise import run_set

PROBLEM = limen.TwoLayer(
    limen.target("tanh(2*z)", noise=0.1), limen.network(1, "tanh"), limen.Adam(0.1, 0.9, 0.99, 0.01), 2.0
)


def test_adam_thirty_steps(benchmark):
    run = in_double(lambda: run_set(PROBLEM, 30, 8192, 0))
    run()
    assert benchmark(run).diverged is None
