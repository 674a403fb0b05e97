r"""From the spectral variable back to the subordination variable: $w(z)$ on the axis, off it, outside the bulk."""

import numpy as np

from limen.problem.spec import InputError
from limen.theory.spectra.subordination import Subordination, bisect

TABLE_POINTS = 96
POINTS_PER_ATOM = 6
NEWTON_STEPS = 25
ACCEPTED_RESIDUAL = 1e-11


def invert_inside(law: Subordination, x: np.ndarray) -> np.ndarray:
    r"""$w(x+i0)$ for points `x` strictly inside the bands, shape `(points,)`.

    Per band, $x(p)$ is tabulated on a cosine grid (refined between atoms); in the angle
    $\varphi=\arccos$ of $x$ scaled to $[-1,1]$, $w$ is smooth up to square-root edges, so linear interpolation
    starts Newton close to the root. Since $z(w)=x$ has at most one root in the upper half plane, a converged
    iterate is the right one. Points that do not converge are found by bisection along the graph $q(p)$.
    """
    angles, table = _tables(law)
    angle = _angle(law, x)
    w = np.interp(angle, angles, np.real(table)) + 1j * np.interp(angle, angles, np.imag(table))
    return _polish(law, w, x.astype(complex))


def invert_above(law: Subordination, z: np.ndarray) -> np.ndarray:
    r"""$w(z)$ for $\mathrm{Im}\,z>0$, shape `(points,)`: Newton on $z(w)=z+i\eta$ with $\eta$ halved down to zero."""
    reach = law.spread + np.abs(law.atoms).max(initial=0.0)
    lift = np.full(z.shape, 2.0 * reach + 1e-300)
    w = z + 1j * lift
    while lift.any():
        lift = np.where(lift > 0.25 * np.imag(z), 0.5 * lift, 0.0)
        for _ in range(6):
            step = _newton_step(law, w, z + 1j * lift)
            w = _reflected(w - step)
            if (np.abs(step) <= 1e-6 * np.imag(w)).all():
                break
    return _polish(law, w, z)


def invert_outside(law: Subordination, x: np.ndarray) -> np.ndarray:
    """The real $w(x)$ for real `x` outside the closed bands, shape `(points,)`."""
    if law.atoms.size == 0:
        return x.copy()
    edges, bands = law.edges.ravel(), law.bands.ravel()
    if ((np.searchsorted(edges, x, side="left") % 2 == 1) | np.isin(x, edges)).any():
        raise InputError("z must lie outside the bulk of the spectrum, or be complex.")
    place = np.searchsorted(edges, x) // 2
    # Beyond 2 * spread from the outer edge h <= 1/4, hence z' >= 3/4: these ends are far enough.
    far = 2.0 * law.spread + 2.0 * (np.abs(x - edges[0]) + np.abs(x - edges[-1]))
    low = np.where(place == 0, bands[0] - far, bands[np.maximum(2 * place - 1, 0)])
    high = np.where(place == len(bands) // 2, bands[-1] + far, bands[np.minimum(2 * place, len(bands) - 1)])
    w = bisect(lambda p: law.map(p) <= x, low, high)
    # Below total mass one, w = 0 is outside the bulk and stands for x = 0; bisection reaches it only up to rounding.
    return np.where((x == 0.0) & (law.total_mass < 1.0), 0.0, w)


def _tables(law: Subordination) -> tuple[np.ndarray, np.ndarray]:
    angle = np.pi * np.arange(TABLE_POINTS) / (TABLE_POINTS - 1)
    angles, values = [], []
    for band, (left, right) in enumerate(law.bands):
        inner = law.atoms[(law.atoms > left) & (law.atoms < right)]
        cells = np.concatenate([[left], inner, [right]])
        fractions = 0.5 - 0.5 * np.cos(np.pi * np.arange(1, POINTS_PER_ATOM + 1) / (POINTS_PER_ATOM + 1))
        width = np.diff(cells)
        # Only where the curve comes down between two atoms does it follow them one by one.
        bent = law.height(cells[:-1] + 0.5 * width) < 2.0 * width
        fine = cells[:-1][bent, None] + width[bent, None] * fractions
        grid = np.union1d(0.5 * (left + right) - 0.5 * (right - left) * np.cos(angle), fine)
        w, x = law.boundary(np.clip(grid, left, right))
        w[[0, -1]], x[[0, -1]] = (left, right), law.edges[band]
        angles.append(_scaled_angle(np.maximum.accumulate(x), *law.edges[band]) + 4.0 * band)
        values.append(w)
    return np.concatenate(angles), np.concatenate(values)


def _angle(law: Subordination, x: np.ndarray) -> np.ndarray:
    band = np.searchsorted(law.edges[:, 1], x)
    return _scaled_angle(x, law.edges[band, 0], law.edges[band, 1]) + 4.0 * band


def _scaled_angle(x: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    # arcsin of the root keeps its digits near the left edge, where arccos of 1 - small would not.
    return 2.0 * np.arcsin(np.sqrt(np.clip((x - left) / (right - left), 0.0, 1.0)))


def _newton_step(law: Subordination, w: np.ndarray, z: np.ndarray) -> np.ndarray:
    step = np.empty(w.shape, complex)
    with np.errstate(divide="ignore", invalid="ignore"):
        for block in law.blocks(w.size):
            value, slope = law.map_and_slope(w[block])
            step[block] = (value - z[block]) / slope
    return step


def _reflected(w: np.ndarray) -> np.ndarray:
    return np.real(w) + 1j * np.abs(np.imag(w))


def _polish(law: Subordination, w: np.ndarray, z: np.ndarray) -> np.ndarray:
    w = w.copy()
    active = np.arange(w.size)
    for _ in range(NEWTON_STEPS):
        step = _newton_step(law, w[active], z[active])
        w[active] = _reflected(w[active] - step)
        # Newton squares the error relative to the height q, the distance to the mirrored root.
        active = active[~(np.abs(step) <= 1e-8 * np.imag(w[active]))]
        if active.size == 0:
            break
    if active.size:
        scale = np.abs(z[active]) + law.spread
        found = (np.abs(law.map(w[active]) - z[active]) <= ACCEPTED_RESIDUAL * scale) & (np.imag(w[active]) > 0.0)
        lost = ~found
        w[active[lost]] = _along_graph(law, z[active[lost]])
    return w


def _along_graph(law: Subordination, z: np.ndarray) -> np.ndarray:
    """Safe and slow: for each $p$ the height with $q(1-h)=\\mathrm{Im}\\,z$, then bisection of $x(p)$."""
    if z.size == 0:
        return z

    def on_level(p: np.ndarray) -> np.ndarray:
        base = law.height(p)
        if not np.imag(z).any():
            return p + 1j * base
        top = 0.5 * (np.imag(z) + np.sqrt(np.imag(z) ** 2 + 4.0 * law.spread**2))
        top = np.maximum(top, base)
        q = bisect(lambda q: np.imag(law.map(p + 1j * q)) <= np.imag(z), base, top)
        return p + 1j * np.where(np.imag(z) > 0.0, q, base)

    far = np.abs(np.real(z)) + 3.0 * law.spread + np.abs(law.masses * law.atoms).sum()
    low, high = law.atoms[0] - far, law.atoms[-1] + far
    p = bisect(lambda p: np.real(law.map(on_level(p))) <= np.real(z), np.full(z.shape, low), np.full(z.shape, high))
    return on_level(p)
