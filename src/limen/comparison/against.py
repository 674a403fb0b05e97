"""`compare`: theory against simulation."""

from collections.abc import Sequence

import numpy as np

from limen.comparison.measure import measure
from limen.comparison.pairs import check_seeds, check_specs, matched, shared_variables, size_of
from limen.comparison.sizes import over_sizes
from limen.comparison.verdict import RESOLUTION, TOLERANCE, Comparison, check_rule, judge
from limen.problem.spec import InputError
from limen.result import Result


def compare(
    theory: Result | Sequence[Result],
    simulation: Result | Sequence[Result],
    variables: Sequence[str] | None = None,
    *,
    resolution: float = RESOLUTION,
    tolerance: float = TOLERANCE,
    differing: Sequence[str] = (),
) -> Comparison:
    r"""Compares a prediction with simulations of the same problem at the same times.

    For each shared variable the mean over seeds of simulation minus theory (paired seed by seed where the theory
    has one row per seed) is held against a simultaneous 99% band over all its points: max-|t|, seeds resampled; exact
    binomial for fractions of outcomes. All are parts of the variable's range.

    *disagrees*: somewhere deviation minus band exceeds the resolution; *agrees*: deviation plus band is below the
    tolerance everywhere, and the sentence says the number; else *cannot tell*, and the sentence says what would decide.
    With simulations of two or more sizes the part of the deviation that falls as $A d^{-q}$ is taken out, as far as the
    data show it, and a point disagrees only if something stays at $d\to\infty$ (99%).
    Where the theory is made seed by seed, the band of *disagrees* is that for the predictions of these seeds: what of
    the differences a line through the predictions foresees is no doubt about their mean. Where its rows are means
    given the start of a seed and have both signs, the differences turned by these signs are judged as well.

    A dataset says what the comparison could not know: attributes of a theory's variable `error` (its own standard
    error: a number or the name of a variable, of which `error_part` is taken), `spread` (the standard deviation of
    one run) and `whole` (the range to measure by: 1 of a fraction that may hardly move); of a variable of either
    witness `outcomes` (it is the fraction of so many outcomes); of a theory's dataset `finite_size_order` ($q$, by
    default 1), `rows` ("means" where a row is the mean over training's own randomness given the start of its seed) and
    `caveat` (a sentence about a known effect, said where it does not agree).

    Args:
        theory: one result, or one per simulation.
        simulation: one result, or one per size.
        variables: names to compare; by default all that both have.
        resolution: differences smaller than this part of the range are never judged.
        tolerance: what *agrees* promises.
        differing: fields of the specs that may differ, e.g. `("inputs",)` to test universality.
    """
    check_rule(resolution, tolerance)
    pairs = matched(theory, simulation)
    check_specs(pairs, differing)
    names = shared_variables(pairs, variables)
    check_seeds(pairs)
    sizes = tuple(size_of(pair[1]) for pair in pairs)
    measured = [over_sizes([measure(name, pair) for pair in pairs], sizes) for name in names]
    limit = pairs[-1][0]
    caveat = str(limit.dataset.attrs.get("caveat", ""))
    if not limit.ok:
        caveat = f"{caveat} The theory says of itself: {limit.status}".strip()
    return judge(measured, sizes, resolution, tolerance, caveat)


def compare_sizes(comparisons: Sequence[Comparison], sizes: Sequence[int]) -> Comparison:
    """Comparisons of one experiment at several sizes as one: what falls with size is taken out, as in `compare`.

    The variables must have the same points at every size.
    """
    if len(comparisons) != len(sizes) or not sizes:
        raise InputError(f"compare_sizes takes one comparison per size, got {len(comparisons)} and {len(sizes)}.")
    order = np.argsort(sizes)
    ordered, increasing = [comparisons[i] for i in order], [int(sizes[i]) for i in order]
    last = ordered[-1]
    measured = [over_sizes([one[v.name].measured for one in ordered], increasing) for v in last.variables]
    return judge(measured, tuple(increasing), last.resolution, last.tolerance, last.caveat)
