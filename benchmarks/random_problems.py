"""Random problems over every family that `predict` takes, each with its times and size: the draws of the campaign."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

import limen
from limen.problem.spec import InputError, Spec

SMOOTH = ("tanh", "gelu", "erf", "sigmoid", "softplus", "square", "linear", "z**2-1", "tanh(z)+0.3*z", "hermite:3")
KINKED = ("relu", "abs(z)", "relu(z)-0.2*z")
SINGLE = (
    "z", "z**2", "z+0.3*z**2", "tanh(z)", "relu(z)", "sign(z)", "z**3-z", "abs(z)", "heaviside(z-0.5)", "gelu(z)",
    "erf(2*z)", "z>0.5", "sin(z)", "exp(-z**2)", "sign(z+0.3*e)", "z+0.5*z*e", "sqrt(1+z**2)", "cos(z)+0.5*z",
)  # fmt: skip
MULTI = (
    "z1*z2", "z1+z2**2", "committee:2", "parity:2", "relu(z1)-0.5*relu(z2)", "tanh(z1)*z2", "z1+z1*z2", "max(z1,z2)",
    "halfspaces:2", "committee:3", "z1+z2*z3",
)  # fmt: skip
LOSSES = ("square",) * 7 + ("huber:1", "pseudo-huber:1", "logistic")


@dataclass(frozen=True)
class Draw:
    """A problem, the times asked for and the smaller of the two dimensions."""

    problem: Spec
    times: Any
    d: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """d and 2d; tokens and power laws have a dimension of their own."""
        own = isinstance(self.problem, limen.SelfAttention | limen.PowerLawFeatures)
        return (self.d,) if own else (self.d, 2 * self.d)

    def __str__(self) -> str:
        times = np.asarray(self.times).tolist()
        return f"problem = {self.problem!r}\ntimes, d = {times}, {self.d}"


def draw(seed: int, number: int) -> Draw:
    """Draw `number` of the campaign `seed`."""
    random = np.random.default_rng([seed, number])
    families = (one_pass, spherical, descent, entrywise, flow, kernel, power_law, single, mixture, tensor, attention)
    chances = (0.25, 0.08, 0.24, 0.06, 0.08, 0.09, 0.03, 0.08, 0.04, 0.02, 0.03)
    for _ in range(100):
        family = families[random.choice(len(families), p=chances)]
        # An invalid draw (an overlap too long for its sphere) is drawn again.
        with contextlib.suppress(InputError):
            return family(random)
    raise AssertionError("no valid problem in 100 draws")


def uniform(random: np.random.Generator, low: float, high: float) -> float:
    """A number with three digits, so that it can be retyped."""
    return float(f"{random.uniform(low, high):.3g}")


def long(random: np.random.Generator, low: float, high: float) -> float:
    """A number with three digits, evenly in its logarithm: times from the first moves to long after them."""
    return float(f"{np.exp(random.uniform(np.log(low), np.log(high))):.3g}")


def network_and_target(random: np.random.Generator, activations: tuple[str, ...], most: int = 4) -> tuple[Any, Any]:
    """A network of small width with a random second layer and bias, and a target with or without noise."""
    several = random.random() < 0.3
    formula = str(random.choice(MULTI if several else SINGLE))
    noise = uniform(random, 0.01, 0.5) if random.random() < 0.5 else 0.0
    width = int(random.integers(1, most + 1))
    second = tuple(uniform(random, 0.4, 1.6) for _ in range(width)) if random.random() < 0.4 else 1.0
    bias = tuple(uniform(random, -0.4, 0.4) for _ in range(width)) if random.random() < 0.2 else 0.0
    network = limen.network(
        width,
        str(random.choice(activations)),
        second_layer=second,
        bias=bias,
        initial_norm=uniform(random, 0.6, 1.3) if random.random() < 0.3 else 1.0,
        train_second_layer=bool(random.random() < 0.25),
    )
    return network, limen.target(formula, noise=noise)


def some_start(random: np.random.Generator, network: Any, target: Any, warm: float = 0.7) -> Any:
    """Overlaps of order one, with or without a Gram matrix, or a random start."""
    if random.random() > warm:
        return limen.RandomStart()
    size = 0.6 * network.initial_norm / np.sqrt(target.latents)
    overlap = np.round(random.uniform(-0.2, 1.0, (network.width, target.latents)) * size, 3)
    if random.random() < 0.6:
        return limen.OverlapStart(overlap)
    rest = random.standard_normal((network.width, network.width + 3))
    rest *= uniform(random, 0.5, 0.9) / np.linalg.norm(rest, axis=1, keepdims=True)
    return limen.OverlapStart(overlap, np.round(overlap @ overlap.T + rest @ rest.T, 6))


def some_loss(random: np.random.Generator, target: Any) -> str:
    """Mostly the square loss; logistic only where labels are signs."""
    loss = str(random.choice(LOSSES))
    return "square" if loss == "logistic" and "sign" not in str(target.formula) else loss


def some_inputs(random: np.random.Generator) -> limen.Inputs:
    """Normal entries, now and then signs; or two variances."""
    chance = random.random()
    if chance > 0.2:
        return limen.Inputs(law="rademacher" if chance > 0.95 else "gaussian")
    part, ratio = uniform(random, 0.3, 0.7), uniform(random, 0.1, 0.7)
    large = 1.0 / (part + (1.0 - part) * ratio)
    return limen.Inputs(variances=(large, ratio * large), fractions=(part, 1.0 - part))


def one_pass(random: np.random.Generator) -> Draw:
    """One-pass SGD, with momentum, batches or inputs of two variances now and then."""
    network, target = network_and_target(random, SMOOTH[:-1] + KINKED)
    batch = int(random.choice([1, 1, 1, 4]))
    momentum = uniform(random, 0.2, 0.8) if random.random() < 0.1 else 0.0
    algorithm = limen.OnePassSGD((1.0 - momentum) * uniform(random, 0.1, 0.8), batch=batch, momentum=momentum)
    start, inputs = some_start(random, network, target), some_inputs(random)
    problem = limen.TwoLayer(target, network, algorithm, None, some_loss(random, target), start, inputs=inputs)
    return Draw(problem, np.linspace(0.0, long(random, 1.0, 20.0), 9), int(random.integers(100, 201)))


def spherical(random: np.random.Generator) -> Draw:
    """SGD on the sphere."""
    network, target = network_and_target(random, SMOOTH[:-1] + KINKED, 2)
    algorithm = limen.SphericalSGD(uniform(random, 0.1, 0.6))
    problem = limen.TwoLayer(target, network, algorithm, start=some_start(random, network, target))
    return Draw(problem, np.linspace(0.0, long(random, 1.0, 10.0), 9), int(random.integers(100, 201)))


def descent(random: np.random.Generator) -> Draw:
    """Full-batch gradient descent, with momentum, weight decay or mini-batches now and then."""
    network, target = network_and_target(random, SMOOTH[:-1] + KINKED[:1], 3)
    extra: dict[str, Any] = {}
    if random.random() < 0.2:
        extra["weight_decay"] = uniform(random, 0.01, 0.2)
    if random.random() < 0.2:
        extra["momentum"] = uniform(random, 0.2, 0.8)
    if random.random() < 0.15:
        extra["batch_fraction"] = 0.5
    if not extra and random.random() < 0.25:
        extra["spherical"] = True
    algorithm = limen.GradientDescent(uniform(random, 0.1, 0.6) * network.width, **extra)
    problem = limen.TwoLayer(
        target,
        network,
        algorithm,
        uniform(random, 2.0, 9.0),
        some_loss(random, target),
        some_start(random, network, target),
        inputs=some_inputs(random),
    )
    steps = int(long(random, 5.0, 40.0))
    return Draw(problem, np.unique(np.linspace(0, steps, 11).astype(int)), int(random.integers(100, 201)))


def entrywise(random: np.random.Generator) -> Draw:
    """Adam and the soft sign."""
    network, target = network_and_target(random, SMOOTH[:5], 2)
    step, start = uniform(random, 0.05, 0.2), some_start(random, network, target, warm=1.0)
    if random.random() < 0.7:
        algorithm: Any = limen.Adam(step, uniform(random, 0.0, 0.9), uniform(random, 0.5, 0.99), 0.1)
    else:
        algorithm = limen.SignDescent(step, 0.2)
    problem = limen.TwoLayer(target, network, algorithm, uniform(random, 2.0, 6.0), "square", start)
    return Draw(problem, int(long(random, 5.0, 20.0)), int(random.integers(100, 201)))


def flow(random: np.random.Generator) -> Draw:
    """Gradient flow on the sphere, of few neurons or of many alike."""
    network, target = network_and_target(random, SMOOTH[:6], 3)
    width = network.width if random.random() < 0.8 else int(random.choice([8, 16, 32]))
    network = limen.network(width, network.activation, train_second_layer=network.train_second_layer)
    overlap = limen.OverlapStart(uniform(random, 0.1, 0.6) / target.latents**0.5)
    problem = limen.TwoLayer(target, network, limen.GradientFlow(), uniform(random, 2.0, 6.0), "square", overlap)
    return Draw(problem, np.linspace(0.0, long(random, 1.0, 8.0), 6), int(random.integers(80, 151)))


def kernel(random: np.random.Generator) -> Draw:
    """Ridge regression and random features."""
    noise, ridge = uniform(random, 0.05, 0.6), long(random, 0.003, 0.5)
    times = np.linspace(0.0, long(random, 2.0, 100.0), 6)
    if random.random() < 0.5:
        return Draw(limen.Ridge(uniform(random, 0.3, 2.0), noise=noise, ridge=ridge), times, 150)
    activation = str(random.choice(("tanh", "relu", "erf", "gelu")))
    problem = limen.RandomFeatures(
        uniform(random, 0.5, 3.0), uniform(random, 0.7, 4.0), activation, ridge=ridge, noise=noise
    )
    return Draw(problem, times, 100)


def power_law(random: np.random.Generator) -> Draw:
    """SGD on features of a power law, at rates up to the largest that stays finite, and a little above."""
    features = int(random.integers(20, 61))
    alpha, beta = uniform(random, 0.3, 1.5), uniform(random, 0.2, 1.2)
    trace = float((np.arange(1, 4 * features + 1) ** (-2.0 * alpha)).sum())
    batch = int(random.choice([1, 1, 4]))
    rate = float(f"{uniform(random, 0.1, 2.1) / (trace + batch + 1.0):.3g}")
    problem = limen.PowerLawFeatures(alpha, beta, features, 4 * features, uniform(random, 0.0, 0.2), rate, batch)
    return Draw(problem, np.unique(np.geomspace(1, long(random, 50.0, 4000.0), 8).astype(int)), features)


def attention(random: np.random.Generator) -> Draw:
    """Tokens under self-attention in a high dimension, or in a moderate one."""
    tokens, dim = int(random.integers(4, 17)), int(long(random, 100.0, 3000.0))
    problem = limen.SelfAttention(uniform(random, 0.0, 3.0), tokens, dim, normalized=bool(random.random() < 0.7))
    return Draw(problem, np.linspace(0.0, long(random, 1.0, 20.0), 8), dim)


def single(random: np.random.Generator) -> Draw:
    """One unit vector on the sphere: single-index, online PCA, a mixture of two."""
    start = limen.OverlapStart(uniform(random, 0.1, 0.7)) if random.random() < 0.6 else limen.RandomStart()
    step, choice = uniform(random, 0.1, 0.6), random.integers(3)
    if choice == 0:
        link = str(random.choice(("relu", "tanh", "z**2", "gelu", "erf")))
        problem: Spec = limen.SingleIndex(link, noise=uniform(random, 0.0, 0.3), step=0.3 * step, start=start)
    elif choice == 1:
        problem = limen.OnlinePCA(uniform(random, 0.5, 3.0), step, start)
    else:
        problem = limen.BinaryMixture(uniform(random, 0.55, 0.9), step, start)
    return Draw(problem, np.linspace(0.0, long(random, 0.5, 10.0), 7), int(random.integers(100, 201)))


def mixture(random: np.random.Generator) -> Draw:
    """Gaussian mixtures and the XOR of four."""
    penalty, step = uniform(random, 0.03, 0.2), uniform(random, 0.3, 1.0)
    if random.random() < 0.5:
        problem: Spec = limen.GaussianMixture(int(random.integers(2, 4)), uniform(random, 2.0, 10.0), penalty, step)
    else:
        problem = limen.XorMixture(4, uniform(random, 2.0, 10.0), penalty, step)
    return Draw(problem, np.linspace(0.0, long(random, 1.0, 10.0), 6), int(random.integers(100, 201)))


def tensor(random: np.random.Generator) -> Draw:
    """A spiked matrix or tensor of order three."""
    order = int(random.integers(2, 4))
    start = limen.OverlapStart(uniform(random, 0.5, 0.9))
    problem = limen.SpikedTensor(order, uniform(random, 2.0, 5.0), uniform(random, 0.1, 0.6), start)
    return Draw(problem, np.linspace(0.0, long(random, 0.05, 1.0), 6), 60 if order == 2 else 24)
