"""The Gaussian model of a two-layer network: what the mean-field equations need to know of a problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from limen.gaussian.duals import dual
from limen.gaussian.functions import as_function
from limen.gaussian.hermite import HIGHEST_DEGREE, hermite_coefficients
from limen.gaussian.quadrature import gaussian_rule
from limen.problem.activations import Activation
from limen.problem.algorithms import GradientFlow
from limen.problem.families.two_layer import TwoLayer
from limen.problem.groups import NeuronGroups, neuron_groups
from limen.problem.spec import InputError
from limen.theory.flow.group_decay import GroupDecay, decay_of
from limen.theory.flow.link_overlap import LinkOverlap, label_mean_square, link_overlap
from limen.theory.flow.series import PowerSeries

MOST_GROUPS = 12
# Coefficients beyond this part of h''(1) are left out.
NEGLIGIBLE = 1e-13


@dataclass(frozen=True, eq=False)
class GaussianModel:
    r"""Residuals $F_i(\theta)=f(x_i)-y_i$ as independent Gaussian processes with the second moments of the network:
    $$EF(\theta)F(\theta')=E y^2-\frac1m\sum_j\left[a_j\hat\varphi(v_j)+a_j'\hat\varphi(v_j')\right]
      +\frac1{m^2}\sum_{jl}a_ja_l'\,h(w_j\cdot w_l').$$

    $h(q)=E\sigma(G_1)\sigma(G_2)=\sum_ks_k^2q^k$ is `dual`, $\hat\varphi(v)$ is `link`, and
    $Ey^2=\tau^2+\lVert\varphi\rVert^2$ `label_power`. Groups $g$ of `sizes` $n_g$ start at `second_layer` (G,), at
    `overlap` (G, k), and at `gram` (G, G) between different neurons. `truncation` is what the Hermite series leave out
    of $E\sigma^2$ and of $h''(1)$, relative to each. `spherical` keeps neurons on the sphere; `decay` is what
    regularisation adds.
    """

    dual: PowerSeries
    link: LinkOverlap
    label_power: float
    samples_per_dim: float
    sizes: np.ndarray
    second_layer: np.ndarray
    overlap: np.ndarray
    gram: np.ndarray
    trained: bool
    truncation: float = 0.0
    spherical: bool = True
    decay: GroupDecay | None = None

    @cached_property
    def groups(self) -> int:
        """Number of groups."""
        return self.sizes.size

    @cached_property
    def width(self) -> float:
        """Number of neurons."""
        return float(self.sizes.sum())

    @cached_property
    def fractions(self) -> np.ndarray:
        """Part of the neurons in each group."""
        return self.sizes / self.sizes.sum()

    @cached_property
    def latents(self) -> int:
        """Number of latent directions."""
        return self.overlap.shape[1]

    @cached_property
    def several(self) -> np.ndarray:
        """Groups with more than one neuron: they have a relative mode."""
        return np.flatnonzero(self.sizes > 1)

    @cached_property
    def alone(self) -> np.ndarray:
        """Groups of one neuron: they have none."""
        return np.flatnonzero(self.sizes <= 1)

    @cached_property
    def samples_per_parameter(self) -> float:
        r"""$\alpha=n/(md)$."""
        return self.samples_per_dim / self.width


def refuses(problem: object) -> str | None:
    """Why the Gaussian model does not apply to a two-layer network, or None."""
    if not isinstance(problem, TwoLayer):
        return "it solves two-layer networks."
    if problem.samples_per_dim is None:
        return "it solves training on a fixed sample, and a one-pass algorithm has none."
    if isinstance(problem.algorithm, GradientFlow) and not problem.algorithm.spherical:
        return "its moments are those of neurons of length 1: it needs them on the sphere."
    if problem.loss.name != "square":
        return f"it needs the square loss, got {problem.loss.name}."
    if np.any(np.asarray(problem.network.bias) != 0.0):
        return "it needs bias 0."
    if problem.start_lengths != (1.0,) * problem.network.width:
        longest = max(problem.start_lengths, key=lambda length: abs(length - 1.0))
        return f"it needs neurons of length 1 at the start (initial_norm, diagonal of gram), got {longest:g}."
    return _kink(problem.network.activation) or problem.inputs.unlike_isotropic()


def gaussian_model(problem: TwoLayer, groups: Sequence[int] | None = None) -> GaussianModel:
    """The Gaussian model of a problem that is not refused; `groups` as in `limen.problem.groups.neuron_groups`."""
    found = neuron_groups(problem, groups)
    if found.sizes.size > MOST_GROUPS:
        raise InputError(
            f"second_layer and overlap must form at most {MOST_GROUPS} groups of equal neurons, got {found.sizes.size}."
        )
    pure_noise = label_mean_square(problem.target) == 0.0
    if pure_noise and problem.target.noise == 0.0:
        raise InputError("noise must be positive when the target is zero: there is nothing to learn or to fit.")
    model = model_of_groups(problem, found)
    if not found.second_layer.any() and not model.link.value(model.overlap).any():
        raise InputError(
            "second_layer must not be 0 where the start has no overlap with the target: nothing would move."
        )
    if not (pure_noise or model.overlap.any() or model.link.slope(model.overlap).any()):
        raise InputError(
            "overlap must be positive at the start (OverlapStart): activation and target share no linear part, so that "
            "neurons with overlap 0 never learn; at finite d it is of order 1/sqrt(d)."
        )
    return model


def model_of_groups(problem: TwoLayer, found: NeuronGroups) -> GaussianModel:
    """The Gaussian model with these groups, however many: particles are cheap, two-time kernels of groups are not."""
    if not found.second_layer.any() and not problem.network.train_second_layer:
        raise InputError("second_layer must not be 0 when it is not trained: nothing would move.")
    coefficients, truncation = activation_series(problem.network.activation)
    link = link_overlap(problem.target, coefficients)
    return GaussianModel(
        PowerSeries(coefficients**2),
        link,
        problem.target.noise + label_mean_square(problem.target),
        float(problem.samples_per_dim or 0.0),
        found.sizes.astype(float),
        found.second_layer,
        found.overlap,
        found.gram,
        problem.network.train_second_layer,
        max(truncation, link.truncation),
        decay=decay_of(problem, found),
    )


@lru_cache(maxsize=64)
def activation_series(activation: Activation) -> tuple[np.ndarray, float]:
    r"""Orthonormal Hermite coefficients $s_k$ and the part of $h''(1)=E\sigma''^2$ (and $E\sigma^2$) they miss."""
    if activation.hermite is not None:
        return np.asarray(activation.hermite, dtype=float), 0.0
    coefficients = hermite_coefficients(activation, HIGHEST_DEGREE)
    k = np.arange(coefficients.size)
    weights = np.maximum(k * (k - 1.0), 1.0) * coefficients**2
    tail = np.cumsum(weights[::-1])[::-1]
    kept = max(int(np.count_nonzero(tail > NEGLIGIBLE * tail[0])), 1)
    coefficients = coefficients[:kept]
    function = as_function(activation)
    slope = function.derivative()
    bend = slope.derivative() if slope is not None else None
    assert bend is not None
    missing = 0.0
    for part, power in ((function, np.ones(kept)), (bend, k[:kept] * (k[:kept] - 1.0))):
        rule = gaussian_rule(part)
        whole = float(rule.weights @ rule.values**2)
        missing = max(missing, abs(whole - float(power @ coefficients**2)) / whole if whole > 1e-20 else 0.0)
    return coefficients, missing


def _kink(activation: Activation) -> str | None:
    if not activation.breakpoints or np.isfinite(float(dual(activation).second(1.0))):
        return None
    return (
        f"it needs h''(1) = E[sigma''^2], which is infinite for {activation.label} (its slope jumps): "
        "take a smooth activation such as softplus, gelu or erf."
    )
