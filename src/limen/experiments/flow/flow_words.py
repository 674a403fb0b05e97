r"""Activations and targets of the flow experiments, as a user writes them: Hermite coefficients, a name or a formula.

The Gaussian model is sampled with tensors of every degree of the activation, and these grow as $d^k$. An activation
that is no polynomial therefore enters through its Hermite series up to degree 3, in theory and in simulation alike.
"""

import numpy as np

from limen.experiments.typeset import typeset
from limen.gaussian.hermite import hermite_coefficients
from limen.problem import Activation, InputError, Target, activation, target
from limen.theory.flow.link_overlap import hermite_tensor, label_mean_square

CUT = 3
NEGLIGIBLE = 1e-12
# The activation and the target of the source's figures.
ACTIVATION, TARGET = "0, 0.8, 0.6", "0, 1"
ACTIVATION_WORDS = "activation σ: Hermite coefficients s₀, s₁, ..., or a name or formula, cut at degree 3"
TARGET_WORDS = "target φ: Hermite coefficients f₀, f₁, ..., or a name or formula in z"
# Labels of pure noise.
NOTHING = "0, 0"
ADDED_TARGET_WORDS = f"{TARGET_WORDS}; by default none, the labels are pure noise"


def coefficients(text: str) -> tuple[float, ...] | None:
    """The numbers of a list such as `0, 0.8, 0.6`; None for names and formulas."""
    try:
        found = tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        return None
    return found if found and ("," in text or len(found) > 1 or not text.strip()) else None


def flow_activation(text: str) -> Activation:
    """The activation of these words, at most of degree 3."""
    series = coefficients(text)
    if series is None:
        found = np.asarray(hermite_coefficients(activation(text), CUT), dtype=float)
        series = tuple(float(x) for x in np.where(np.abs(found) > NEGLIGIBLE, found, 0.0))
    series = tuple(np.trim_zeros(series, "b")) or (0.0,)
    if len(series) > CUT + 1:
        raise InputError(f"activation must have at most degree {CUT}, which is sampled as tensors, got {text!r}.")
    if not any(series[1:]):
        raise InputError(f"activation must not be constant, got {text!r}.")
    return activation(hermite=series)


def flow_target(text: str, noise: float) -> Target:
    """The target of these words."""
    series = coefficients(text)
    return target(text, noise=noise) if series is None else target(hermite=series, noise=noise)


def noise_series(text: str) -> list[float]:
    """Coefficients of $h$ of an activation without its constant and linear parts; refused where nothing is left."""
    series = np.asarray(flow_activation(text).hermite, dtype=float) ** 2
    series[:2] = 0.0
    if not series.any():
        raise InputError(f"activation must have a part of degree 2 or more to fit noise, got {text!r}.")
    return series.tolist()


def unlearnt_noise(activation_words: str, target_words: str, noise: float) -> float:
    r"""Variance of what a wide network with second layer $\gamma\sqrt m$ can only fit, not learn:
    $\tau^2+\lVert\varphi\rVert^2-\lvert f_1\rvert^2$.

    Its neurons move by $O(m^{-1/2})$: it learns the linear part of the target, $f_1=E[\varphi(z)z]$, if
    the activation has one, and adds $O(m^{-1/2})$ of the higher degrees, which are noise to it.
    """
    posed = flow_target(target_words, noise)
    series = flow_activation(activation_words).hermite or (0.0,)
    linear = 0.0
    if len(series) > 1 and series[1]:
        if posed.latents == 1:
            linear = float(hermite_coefficients(posed, 1)[1] ** 2)
        else:
            powers, tensor = hermite_tensor(posed, 1)
            linear = float((tensor[powers.sum(axis=1) == 1] ** 2).sum())
    return noise + label_mean_square(posed) - linear


def learnt_without_overlap(activation_words: str, target_words: str) -> bool:
    r"""Whether the target is constant zero or linear: then it is kept while the overlap falls and $a$ grows."""
    posed = flow_target(target_words, 0.0)
    return unlearnt_noise(activation_words, target_words, 0.0) <= NEGLIGIBLE * max(1.0, label_mean_square(posed))


def depends_on_width(activation_words: str, target_words: str) -> bool:
    r"""Whether the limit at $\gamma=a/\sqrt m$ still depends on $m$: with a linear part or a target."""
    series = flow_activation(activation_words).hermite or (0.0,)
    return bool(len(series) > 1 and series[1]) or label_mean_square(flow_target(target_words, 0.0)) > 0.0


def series_label(text: str) -> str:
    r"""An activation or target as it stands in a title: $0.8\,he_1+0.6\,he_2$, or its name."""
    series = coefficients(text)
    if series is None:
        return typeset(text)
    parts = [
        f"he_{k}" if value == 1.0 and k else f"{value:g}" + (rf"\,he_{k}" if k else "")
        for k, value in enumerate(series)
        if value
    ]
    return f"${'+'.join(parts) or '0'}$".replace("+-", "-")
