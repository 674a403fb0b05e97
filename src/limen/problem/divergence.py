r"""Weights that diverge: which number of the problem is to blame, and what to take instead.

A step of descent sees $\delta b$ samples per dimension ($\delta$ `samples_per_dim`, $b$ `batch_fraction`). The largest
curvature of a linear neuron on them is $(1+1/\sqrt{\delta b})^2$, four times that of the population at $\delta b=1$ and
without bound below. A step that diverges there is one that many samples may well allow. Weight decay alone multiplies
weights by $1-\eta\lambda$, beyond one in size if $\eta\lambda>2$.
"""

from limen.problem.algorithms import Descent
from limen.problem.families.two_layer import TwoLayer
from limen.problem.rates import rate_label


def to_blame(problem: TwoLayer) -> str:
    """`weight_decay` where it diverges alone; the smaller of `samples_per_dim` and `batch_fraction` where a step sees
    less than one sample per dimension; else `step`."""
    algorithm, samples = problem.algorithm, problem.samples_per_dim
    assert isinstance(algorithm, Descent) and samples is not None
    if isinstance(algorithm.step, float) and algorithm.step * getattr(algorithm, "weight_decay", 0.0) > 2.0:
        return "weight_decay"
    if samples * algorithm.batch_fraction >= 1.0:
        return "step"
    return "samples_per_dim" if samples <= algorithm.batch_fraction else "batch_fraction"


def remedy(problem: TwoLayer) -> str:
    """`take a smaller step than 0.3`, or before it more or less of what is to blame."""
    assert isinstance(problem.algorithm, Descent)
    name, smaller = to_blame(problem), f"a smaller step than {rate_label(problem.algorithm.step)}"
    if name == "step":
        return f"take {smaller}"
    value = problem.samples_per_dim if name == "samples_per_dim" else getattr(problem.algorithm, name)
    return f"take a {'smaller' if name == 'weight_decay' else 'larger'} {name} than {value:g}, or {smaller}"


def refusal(problem: TwoLayer, status: str) -> str:
    """One sentence for weights that diverge where they must not, from a status that says when."""
    name = to_blame(problem)
    return f"{name} must be {'small' if name in ('step', 'weight_decay') else 'large'} enough for descent: {status}"
