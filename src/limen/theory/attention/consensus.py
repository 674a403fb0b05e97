r"""One cluster, or two opposite ones, under given matrices: consensus rate and bipolar stability.

All tokens at one point $x$ follow $\dot x=P^\perp_xVx$, towards the eigenvector of the rightmost eigenvalue of $V$ (or
a rotation in its plane), and differences between tokens decay at the average of $\langle x,Vx\rangle$, which is
$\alpha(V)=\max\mathrm{Re}\,\lambda(V)$, whatever $Q$, $K$ and $\beta$ (softmax).

A fraction $q$ of the tokens at $v$ and the rest at $-v$, with $Vv=\lambda v$ and $b=v^\top Bv$, $B=Q^\top K$, is
stationary. Attention to the own pole is $p_\pm=1/(1+e^{-2\beta b}(\tfrac{1-q}q)^{\pm1})$. Differences inside one
pole grow at $-\lambda(2p_\pm-1)$; along each other eigenvalue $\mu$ of $V$ the two poles move with the matrix
$$\begin{pmatrix}\mu p_+-\lambda(2p_+-1)&\mu(1-p_+)\\\mu(1-p_-)&\mu p_--\lambda(2p_--1)\end{pmatrix}.$$
For $q=\frac12$ these are $-\lambda\tanh\beta b$, $\mu-\lambda\tanh\beta b$ and $(\mu-\lambda)\tanh\beta b$: stable iff
$\lambda b>0$, $\mathrm{Re}\,\mu<|\lambda|\tanh(\beta|b|)$ for all others, and $\lambda$ is the rightmost ($b>0$) or
leftmost ($b<0$) eigenvalue.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from limen.checks import fraction as proper_fraction
from limen.checks import number, square_matrix
from limen.problem.spec import InputError

CITATIONS = ("geshkovski2023",)
ROUNDING = 1e-10


@dataclass(frozen=True)
class BipolarStability:
    r"""Stability of tokens split between two opposite poles $\pm v$, an eigenvector of $V$.

    `stable`: all rates are negative. `pole`: the unit eigenvector $v$, `eigenvalue` its $\lambda$, `coupling` $b=v^\top
    Bv$. `internal`: rates at which tokens of the pole $+v$ and of $-v$ part (negative: they gather). `rates`: the
    $2(d-1)$ growth rates of moving the poles as a whole, complex if $V$ has complex eigenvalues. `growth`: the largest
    real part of all.
    """

    stable: bool
    pole: NDArray[np.float64]
    eigenvalue: float
    coupling: float
    internal: tuple[float, float]
    rates: np.ndarray
    growth: float


def consensus_rate(V: ArrayLike) -> float:
    r"""Rate $\alpha(V)=\max\mathrm{Re}\,\lambda(V)$ at which tokens near consensus approach each other; stable iff
    positive.

    For softmax attention with any $Q$, $K$, $\beta$ and number of tokens; $1-\cos$ decays at twice this rate.
    """
    return float(np.linalg.eigvals(square_matrix("V", V)).real.max())


def bipolar_stability(V: ArrayLike, B: ArrayLike, beta: float, fraction: float = 0.5) -> BipolarStability:
    r"""The most stable bipolar state of softmax attention with value matrix `V` and $B=Q^\top K$.

    Every real eigenvector of `V` is a candidate pole; the one whose largest growth rate is smallest is returned.
    `fraction` of the tokens are at $+v$ (many tokens at both poles). If $V=I$ no bipolar state is stable: the poles
    part at $1-\tanh\beta$. $O(d^3)$.
    """
    value, logits = square_matrix("V", V), square_matrix("B", B)
    if value.shape != logits.shape:
        raise InputError(f"B must have the shape of V, {value.shape}, got {logits.shape}.")
    beta, share = number("beta", beta), proper_fraction("fraction", fraction)
    if np.array_equal(value, value.T):
        eigenvalues, vectors = np.linalg.eigh(value)
    else:
        eigenvalues, vectors = np.linalg.eig(value)
    scale = float(np.abs(eigenvalues).max()) or 1.0
    real_ones = np.flatnonzero(np.abs(np.imag(eigenvalues)) <= ROUNDING * scale)
    if real_ones.size == 0:
        raise InputError("V must have a real eigenvalue to carry a bipolar state, and it has none.")
    states = [_state(eigenvalues, vectors, int(i), logits, beta, share) for i in real_ones]
    return min(states, key=lambda state: state.growth)


def _state(
    eigenvalues: NDArray[np.complex128] | NDArray[np.float64],
    vectors: NDArray[np.complex128] | NDArray[np.float64],
    index: int,
    logits: NDArray[np.float64],
    beta: float,
    share: float,
) -> BipolarStability:
    own = float(np.real(eigenvalues[index]))
    pole = np.real(vectors[:, index])
    pole = pole / np.linalg.norm(pole)
    coupling = float(pole @ logits @ pole)
    odds = np.log(share / (1.0 - share))
    plus, minus = float(expit(2.0 * beta * coupling + odds)), float(expit(2.0 * beta * coupling - odds))
    hold = own * np.array([2.0 * plus - 1.0, 2.0 * minus - 1.0])
    others = np.delete(eigenvalues, index)
    # Eigenvalues of the two-by-two matrices other * [[plus, 1 - plus], [1 - minus, minus]] - diag(hold).
    first, second = others * plus - hold[0], others * minus - hold[1]
    root = np.sqrt(0.25 * (first - second) ** 2 + others**2 * ((1.0 - plus) * (1.0 - minus)))
    rates = np.concatenate([0.5 * (first + second) + root, 0.5 * (first + second) - root])
    if np.abs(np.imag(rates)).max() <= ROUNDING * (1.0 + np.abs(rates).max()):
        rates = np.real(rates)
    growth = float(max(np.real(rates).max(), (-hold).max()))
    rates = rates[np.argsort(-np.real(rates))]
    internal = (-float(hold[0]), -float(hold[1]))
    return BipolarStability(growth < -ROUNDING, pole, own, coupling, internal, rates, growth)
