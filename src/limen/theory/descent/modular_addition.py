r"""Modular addition by a two-layer network with squares: an exact solution, how wide a random one must be, and what a
lazy network does instead.

A pair $(n,m)$ of residues mod an odd $p$ enters as two one-hot vectors, and
$$f_q(n,m)=\frac1N\sum_{k\le N}W_{qk}\,(U_{kn}+V_{km})^2$$
is to be largest at $q=n+m$ modulo $p$. Gromov 2023: take a frequency $\kappa_k$ and phases $\varphi_k,\psi_k$ for each
neuron and
$$U_{kn}=\cos\big(\tfrac{2\pi\kappa_k}pn+\varphi_k\big),\quad V_{km}=\cos\big(\tfrac{2\pi\kappa_k}pm+\psi_k\big),\quad
W_{qk}=\cos\big(\tfrac{2\pi\kappa_k}pq+\varphi_k+\psi_k\big).$$
Of the products of cosines only $\frac12\cos\frac{2\pi\kappa}p(n+m-q)$ is free of phases; averaged over
$\kappa=1,\dots,\frac{p-1}2$ it is $\frac12$ at the sum and $-\frac1{2(p-1)}$ elsewhere.

**Exactly.** The other products carry the phases $\pm\varphi\pm\psi$, $3\varphi+\psi$, $\varphi+3\psi$,
$2\varphi+2\psi$, $2\varphi$, $2\psi$. With $\varphi=\frac{2\pi j}6$, $\psi=\frac{2\pi\cdot4j}6$, $j=0,\dots,5$, none of
them is a multiple of $2\pi$ for all $j$ and all cancel: $N=3(p-1)$ neurons are exact.

**At random.** With frequencies and phases drawn independently the rest is noise of size $N^{-1/2}$. With
$A=\frac{2\pi\kappa}pn+\varphi$, $B=\frac{2\pi\kappa}pm+\psi$ uniform, a neuron adds $r\cos\theta$ to the sum and
$r\cos(\theta-\frac{2\pi\kappa}ps)$ to the output at distance $s$, $r=(\cos A+\cos B)^2$, $\theta=A+B$. Given $r$ and
$\theta$ of all neurons the other outputs are Gaussian by their frequencies, in pairs $\pm s$: of variance
$\frac1{2N^2}\sum r^2$, covariance $\frac1{2N^2}\sum r^2\cos2\theta$ and, up to $1/p$, independent of other pairs. The
chance that the sum wins is an average over $r,\theta$. As $N\to\infty$ these become Gaussian too, with
$Er^2=\frac94$ and $Er^2\cos2\theta=\frac38$, but where the accuracy rises ($N$ of tens) that is not good enough: it
puts 0.90 for 0.96 at $p=23$, $N=48$, because a lucky draw of the sum is also a draw of large noise.
"""

import numpy as np
from scipy.special import ndtr, owens_t

from limen.problem.spec import InputError

TURNS, SECOND = 6, 4
# Draws of a mean: as many as make so many angles, within bounds.
ANGLES, FEWEST_DRAWS, MOST_DRAWS, BLOCK = 2_000_000, 8192, 65_536, 200_000
# A cosine at a random angle has the fourth cumulant -3/8 and the variance 1/2: -3/2 over 24.
TAILS = 1.5 / 24.0
# For the second derivative by the level.
SHIFT = 0.1
LARGEST_MODULUS, LARGEST_WIDTH = 10_007, 10_000


def modular_solution(modulus: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$U,V$ (N, p) and $W$ (p, N) with $N=3(p-1)$ that add modulo $p$ exactly: $f_q=\frac12$ at the sum and
    $-\frac1{2(p-1)}$ elsewhere.

    Args:
        modulus: $p$, odd and at least 3.
    """
    p = check_modulus(modulus)
    frequency = np.repeat(np.arange(1, (p + 1) // 2), TURNS)
    turn = 2.0 * np.pi * np.tile(np.arange(TURNS), (p - 1) // 2) / TURNS
    return periodic_weights(p, frequency, turn, SECOND * turn)


def periodic_weights(
    modulus: int, frequency: np.ndarray, first_phase: np.ndarray, second_phase: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$U,V$ (N, p) and $W$ (p, N) of neurons with these $\kappa,\varphi,\psi$, each (N,)."""
    angle = 2.0 * np.pi / modulus * frequency[:, None] * np.arange(modulus)
    first, second = angle + first_phase[:, None], angle + second_phase[:, None]
    return np.cos(first), np.cos(second), np.cos(first + second_phase[:, None]).T


def random_solution_accuracy(modulus: int, width: int) -> tuple[float, float]:
    r"""Chance that $N$ neurons with random frequencies and phases add a pair right, and its error.

    The mean of $F-\frac{1+\rho}{2(p-1)}F''$, $F(u)=\Phi_2(u,u;\rho)^{(p-1)/2}$, over frozen draws of $r,\theta$, with
    $u=\sqrt{\frac p{p-1}}\sum r\cos\theta\big/\sqrt{\frac12\sum r^2}$, $\rho=\sum r^2\cos2\theta/\sum r^2$ and $\Phi_2$
    the bivariate normal distribution function, $u$ raised by $\frac1{16}\frac{\sum r^4}{(\sum r^2)^2}(u^3-3u)$ for the
    light tails of few waves (the fourth cumulant).

    The term in $F''$ is of order $1/p$: outputs of a neuron add up to zero, so that different pairs are correlated by
    $-c$, $c=\frac{1+\rho}{p-1}$. An independent Gaussian of variance $c$ added to all of them makes them independent;
    taken back, to first order, it is $-\frac c2F''$. Left are $O(p^{-2})$, third cumulants between pairs, and what few
    waves have beyond the fourth. The error is that of the draws together with $\frac{\sum r^4}{(\sum r^2)^2}$ times
    what the fourth cumulant changes, the size of the next term for few waves, and with $\frac3{p-1}$ times the term in
    $F''$, of order $p^{-2}$ and about as far as drawn networks are off at $p=5$ and 7. It is too small for few waves
    between: at $p=11$, $N=16$ they are off by 0.018(4), three times as far. The same for every pair $(n,m)$; $O(N)$
    operations for each of 8192 draws or more.
    """
    p = check_modulus(modulus)
    if isinstance(width, bool) or width != int(width) or not 1 <= width <= LARGEST_WIDTH:
        raise InputError(f"width must be a whole number between 1 and {LARGEST_WIDTH}, got {width!r}.")
    random, part = np.random.default_rng(0), p / (p - 1.0)
    chances, further, turned, draws = [], [], [], min(max(ANGLES // int(width), FEWEST_DRAWS), MOST_DRAWS)
    for count in np.diff(np.linspace(0, draws, max(2, draws * int(width) // BLOCK + 2)).astype(int)):
        angles = random.uniform(0.0, 2.0 * np.pi, (2, count, int(width)))
        size, turn = np.cos(angles).sum(axis=0) ** 2, angles.sum(axis=0)
        power = (size**2).sum(axis=1)
        level = part**0.5 * (size * np.cos(turn)).sum(axis=1) / np.sqrt(0.5 * power)
        shared = np.clip((size**2 * np.cos(2.0 * turn)).sum(axis=1) / power, -1.0 + 1e-12, 1.0)
        # A sum of few waves has lighter tails than a Gaussian: the level at which a Gaussian has the same probability.
        few = (size**4).sum(axis=1) / power**2
        tails = TAILS * few
        below, at, above = (_all_lower(level + shift, shared, tails, (p - 1) // 2) for shift in (-SHIFT, 0.0, SHIFT))
        turned.append(-0.5 * (1.0 + shared) / (p - 1.0) * (below - 2.0 * at + above) / SHIFT**2)
        chances.append(at + turned[-1])
        further.append(few * np.abs(at - _all_lower(level, shared, 0.0 * tails, (p - 1) // 2)))
    found = np.concatenate(chances)
    left = (np.concatenate(further).mean(), 3.0 / (p - 1.0) * np.concatenate(turned).mean())
    return float(found.mean()), float(np.linalg.norm([found.std(ddof=1) / found.size**0.5, *left]))


def _all_lower(level: np.ndarray, shared: np.ndarray, tails: np.ndarray, pairs: int) -> np.ndarray:
    """Chance that independent `pairs` of outputs, of unit variance and correlation `shared`, stay below a level."""
    raised = level + tails * (level**3 - 3.0 * level)
    both = ndtr(raised) - 2.0 * owens_t(raised, np.sqrt((1.0 - shared) / (1.0 + shared)))
    return np.maximum(both, 0.0) ** pairs


def lazy_scores(modulus: int, pairs: np.ndarray) -> np.ndarray:
    r"""Outputs (p, p, p), over $n,m,q$, of an infinitely wide lazy network fitted to the sums of `pairs` (count, 2).

    With weights of unit variance its tangent kernel is $4+6c^2$, $c=\delta_{nn'}+\delta_{mm'}$, which is
    $4+6\delta_{nn'}+6\delta_{mm'}+12\,\delta_{nn'}\delta_{mm'}$: on a pair that was not seen the output is a constant
    plus a part of $n$ plus a part of $m$. In the row of $n$ and in the column of $m$ every sum occurs once, and of an
    unseen pair it is the one that was *not* seen there: its score is lower than that of the others.
    """
    p = check_modulus(modulus)
    kernel = tangent_kernel(pairs, pairs)
    labels = np.eye(p)[pairs.sum(axis=1) % p]
    everywhere = np.stack(np.meshgrid(np.arange(p), np.arange(p), indexing="ij"), axis=-1).reshape(-1, 2)
    return (tangent_kernel(everywhere, pairs) @ np.linalg.solve(kernel, labels)).reshape(p, p, p)


def tangent_kernel(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """$4+6c^2$ between pairs (a, 2) and (b, 2), $c$ the number of places at which they agree."""
    shared = (first[:, None] == second[None]).sum(axis=2)
    return 4.0 + 6.0 * shared**2.0


def check_modulus(modulus: int) -> int:
    """The modulus, where it is one."""
    if isinstance(modulus, bool) or modulus != int(modulus) or modulus % 2 == 0 or not 3 <= modulus <= LARGEST_MODULUS:
        raise InputError(f"modulus must be an odd whole number between 3 and {LARGEST_MODULUS}, got {modulus!r}.")
    return int(modulus)
