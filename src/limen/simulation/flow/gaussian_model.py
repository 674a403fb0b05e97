"""The Gaussian model of a two-layer network at finite dimension: residuals are Gaussian processes of the weights."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from limen.gaussian.hermite import hermite_coefficients
from limen.gaussian.starts.start_weights import start_weights
from limen.labelled import with_coordinates
from limen.machine.memory import check_memory
from limen.method import Method
from limen.precision import in_double
from limen.problem import GradientDescent, GradientFlow, InputError, Target, TwoLayer
from limen.problem.algorithms import beyond_plain, constant_step
from limen.result import Findings
from limen.simulation.descent.fixed_sample import draw_sample, sample_size
from limen.simulation.effective.symmetric_tensors import SymmetricPowers, symmetric_dimension, symmetric_powers
from limen.simulation.flow.flow_record import (
    check_flow,
    check_path,
    check_tolerance,
    flow_outcome,
    flow_rule,
    group_dataset,
)
from limen.simulation.flow.sphere_flow import SphereFlow, descent_path, flow_path
from limen.simulation.flow.target_tensors import target_tensors
from limen.simulation.generators import numpy_generator
from limen.simulation.work import check_flow_work

CITATIONS = ("montanari2025", "sommeijer1998")
HIGHEST_DEGREE = 4
EXAMINED_DEGREE = 60
NEGLIGIBLE = 1e-20
BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, eq=False)
class GaussianModel:
    r"""One draw of the residuals

    $$F_i(a,w)=\sum_k\Big\langle G_i^{(k)},\frac{s_k}m\sum_ja_ju_j^{\otimes k}-T_k\Big\rangle-\varepsilon_i,\qquad
    u_j=w_j/|w_j|,$$

    $G_i^{(k)}$ independent standard Gaussian tensors, one for each degree with $s_k\ne0$, in the coordinates of
    symmetric tensors. `series` maps these degrees to $s_k$, `tensors` to $G^{(k)}$ (n, coordinates), `target` to $T_k$,
    `noise` is $\varepsilon$ (n,), of variance `noise_variance`; `radius` is $|w_j|$.
    """

    series: dict[int, float]
    tensors: dict[int, np.ndarray]
    target: dict[int, np.ndarray]
    powers: dict[int, SymmetricPowers]
    noise: np.ndarray
    noise_variance: float
    radius: float

    def risk_and_gradient(self, first: np.ndarray, second: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        r"""$\frac1{2n}\sum_iF_i^2$ and its gradients in first (m, d) and second layer (m,).

        Two products of the tensors with a vector, $4n$ operations per coordinate whatever the number of neurons.
        """
        n, m = self.noise.size, len(second)
        unit, differences = first / self.radius, self.differences(first, second)
        pulls = {degree: np.zeros(difference.size) for degree, difference in differences.items()}
        # Rows in blocks that stay in cache between the two products: the tensors are read from memory once.
        rows = max(8, BLOCK_BYTES // (8 * sum(pull.size for pull in pulls.values()) + 8))
        square = 0.0
        for begin in range(0, n, rows):
            block = slice(begin, begin + rows)
            residual = -self.noise[block]
            for degree, difference in differences.items():
                residual = residual + self.tensors[degree][block] @ difference
            for degree, pull in pulls.items():
                pull += residual @ self.tensors[degree][block]
            square += float(residual @ residual)
        slope, second_slope = np.zeros_like(first), np.zeros_like(second)
        for degree, coefficient in self.series.items():
            pull = pulls[degree] * (coefficient / (n * m))
            if degree == 0:
                second_slope += pull[0]
                continue
            contracted = self.powers[degree].contracted(pull, unit)
            second_slope += (contracted * unit).sum(axis=1)
            slope += degree / self.radius * second[:, None] * contracted
        return square / (2 * n), slope, second_slope

    def test_loss(self, first: np.ndarray, second: np.ndarray) -> float:
        """Half the variance of a fresh residual."""
        parts = self.differences(first, second).values()
        return 0.5 * (self.noise_variance + sum(float(part @ part) for part in parts))

    def differences(self, first: np.ndarray, second: np.ndarray) -> dict[int, np.ndarray]:
        """Network minus target, degree by degree."""
        unit, m = first / self.radius, len(second)
        found = {}
        for degree, coefficient in self.series.items():
            if degree == 0:
                network = np.array([coefficient / m * second.sum()])
            else:
                network = self.powers[degree].sum_of_powers(unit, coefficient / m * second)
            found[degree] = network - self.target[degree]
        return found


def activation_series(problem: TwoLayer) -> dict[int, float]:
    r"""The coefficients $s_k\ne0$ of $\sigma(\text{initial\_norm}\cdot)$ by degree; refused when it is no polynomial of
    degree at most 4."""
    found = hermite_coefficients(problem.network.activation, EXAMINED_DEGREE, problem.network.initial_norm)
    total, beyond = float((found**2).sum()), float((found[HIGHEST_DEGREE + 1 :] ** 2).sum())
    if beyond > NEGLIGIBLE * total:
        raise InputError(
            f"activation must be a polynomial of degree at most {HIGHEST_DEGREE} for the sampled Gaussian model, and "
            f"{problem.network.activation.label} has {beyond / total:.1%} of its square beyond: tensors of degree k "
            f"take n d^k / k! numbers."
        )
    return {degree: float(s) for degree, s in enumerate(found[: HIGHEST_DEGREE + 1]) if s**2 > NEGLIGIBLE * total}


def refuses(problem: object) -> str | None:
    """Why the Gaussian model at finite dimension cannot run the problem, or None."""
    if not isinstance(problem, TwoLayer):
        return "it trains two-layer networks."
    algorithm = problem.algorithm
    projected = isinstance(algorithm, GradientDescent) and algorithm.spherical and algorithm.weight_decay == 0.0
    if not projected and not isinstance(algorithm, GradientFlow):
        return "it runs GradientFlow, or GradientDescent with spherical=True and no weight decay."
    if isinstance(algorithm, GradientDescent) and (reason := beyond_plain(algorithm)) is not None:
        return reason
    if isinstance(algorithm, GradientFlow) and not algorithm.spherical:
        return "its Gaussian tensors belong to directions of neurons: it needs them on the sphere."
    if problem.loss.name != "square":
        return f"it is the Gaussian model of the square loss, not of {problem.loss.name}."
    if any(problem.network.per_neuron("bias")):
        return "it has no biases."
    return problem.inputs.unlike_isotropic() or problem.inputs.unlike_gaussian()


def draw_model(problem: TwoLayer, d: int, seed: int) -> GaussianModel:
    r"""One draw in dimension $d$. With the same seed a network on a real sample has the same start, the same label
    noise and, as inputs, the Gaussian tensors of degree 1. Memory: $8n\binom{d+k-1}k$ bytes per degree, at most 2 GB.
    """
    n, series = sample_size(problem, d, "float64"), activation_series(problem)
    size = 8.0 * n * sum(symmetric_dimension(d, degree) for degree in series)
    full = 16.0 * max((float(d) ** degree for degree in series), default=0.0)
    what = f"d = {d}, with Gaussian tensors of degree {max(series, default=0)} for {n} samples,"
    check_memory(what, size + full, "take a smaller d")
    target, rest = target_tensors(problem.target, d, tuple(series))
    frame = jnp.eye(problem.target.latents, d, dtype=jnp.float64)
    pure_noise = Target(hermite=(0.0,), noise=problem.target.noise)
    inputs, noise = (np.asarray(part) for part in draw_sample(pure_noise, n, frame[:1], seed, "gaussian"))
    if rest > 0.0:
        noise = noise + np.sqrt(rest) * numpy_generator(seed, d, "label rest").standard_normal(n)
    tensors = {}
    for degree in series:
        drawn = numpy_generator(seed, d, f"tensors of degree {degree}").standard_normal
        tensors[degree] = inputs if degree == 1 else drawn((n, symmetric_dimension(d, degree)))
    powers = {degree: symmetric_powers(d, degree) for degree in series if degree > 0}
    variance = problem.target.noise + rest
    return GaussianModel(series, tensors, target, powers, noise, variance, problem.network.initial_norm)


@in_double
def solve(problem: TwoLayer, times: np.ndarray, d: int, seed: int, tolerance: float = 1e-5) -> Findings:
    r"""Trains the Gaussian model: $\hat R=\frac1{2n}\sum_iF_i^2$, where the residual of every sample is a Gaussian
    process with the second moment that $f(x)-y$ has for a random input,

    $$E\,F(a,w)F(a',w')=\text{noise}+E\varphi^2-\frac1m\sum_ja_j\hat\varphi(v_j)-\frac1m\sum_ja'_j\hat\varphi(v'_j)
    +\frac1{m^2}\sum_{jl}a_ja'_l\,h(\langle w_j,w'_l\rangle),$$

    $h(q)=\sum_ks_k^2q^k$, $\hat\varphi(v)=\sum_ks_k\langle T_k,v^{\otimes k}\rangle$. Its $d\to\infty$ limit is the
    mean-field theory of the flow, so that beside a real network it separates the error of finite dimension from the
    error of the Gaussian model. Runs `GradientFlow` (local error `tolerance`) and
    `GradientDescent(spherical=True)`; variables as of the simulator `gradient-flow`, and `test_loss` is
    $\frac12E\,F^2$, exact given the weights. The activation must be a polynomial of degree at most 4; of the target,
    degrees that the activation lacks are noise.

    Cost: $4n\binom{d+k-1}k$ operations a gradient, whatever the width. Model: Montanari & Urbani 2025.
    """
    check_tolerance(tolerance)
    check_flow(problem, float(times[-1]))
    width = problem.network.width
    check_path(times.size, width, d)
    model, start = draw_model(problem, d, seed), start_weights(problem, d, seed)
    n, second = model.noise.size, np.asarray(problem.network.per_neuron("second_layer"))
    flow = SphereFlow(model.risk_and_gradient, (width, d), flow_rule(problem, n, d, tolerance))
    if isinstance(problem.algorithm, GradientDescent):
        path = descent_path(flow, start, second, times, constant_step(problem.algorithm))
        what = "projected gradient descent"
    else:
        operations = 4.0 * sum(tensor.size for tensor in model.tensors.values())
        check_flow_work(d, float(times[-1]), flow.start_rate(start, second), operations)
        path, what = flow_path(flow, start, second, times), "gradient flow"
    test = np.array([model.test_loss(*weights) for weights in zip(path.first, path.second, strict=True)])
    overlap, gram = path.first[:, :, : problem.target.latents], path.first @ np.swapaxes(path.first, 1, 2)
    dataset = group_dataset(problem, times, seed, path, test, overlap, gram).assign_attrs(n=n)
    if problem.counts_steps:
        dataset = with_coordinates(dataset, {"step": ("time", times.astype(np.int64))})
    status, statistics = flow_outcome(path, f"{what} of the Gaussian model of n = {n} samples in d = {d}.")
    return Findings(dataset, path.finished, status, statistics)


sampled_gaussian_model = Method("sampled-gaussian-model", "simulation", CITATIONS, refuses, solve)
