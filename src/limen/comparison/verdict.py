"""The rule: what a deviation, a band, a resolution and a tolerance say, and the sentence that says it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from limen.comparison.bands import normal_width, outcome_interval
from limen.comparison.measure import FEWEST_SEEDS, Measured
from limen.problem.spec import InputError

Verdict = Literal["agrees", "disagrees", "cannot tell"]
RESOLUTION = 0.01
TOLERANCE = 0.05
# Up to here seeds are advised.
MOST_SEEDS = 1000


@dataclass(frozen=True)
class VariableComparison:
    """One variable; all numbers are parts of its range.

    `deviation`, `band` (where it disagrees the conditional one) and `allowance` stand at the point that decided
    (`where`; `turned` says whether with differences turned by the sign of their predictions); `within` is the largest
    deviation that band and allowance leave possible, over all points. `measured` has every point.
    """

    name: str
    deviation: float
    band: float
    allowance: float
    within: float
    verdict: Verdict
    where: dict[str, float]
    measured: Measured = field(repr=False, compare=False)
    turned: bool = False

    @property
    def words(self) -> str:
        """What is off: the variable, or its part along the predictions."""
        return f"{self.name} along the sign of its prediction" if self.turned else self.name


@dataclass(frozen=True)
class Comparison:
    """Every shared variable, and one sentence about all of them."""

    variables: tuple[VariableComparison, ...]
    verdict: Verdict
    sentence: str
    seeds: int
    sizes: tuple[int, ...]
    resolution: float = RESOLUTION
    tolerance: float = TOLERANCE
    caveat: str = ""

    def __getitem__(self, name: str) -> VariableComparison:
        for variable in self.variables:
            if variable.name == name:
                return variable
        raise KeyError(f"{name!r} was not compared; these were: {', '.join(v.name for v in self.variables)}")

    def judged(self, resolution: float = RESOLUTION, tolerance: float = TOLERANCE) -> "Comparison":
        """The same measurement under another resolution and tolerance."""
        return judge([variable.measured for variable in self.variables], self.sizes, resolution, tolerance, self.caveat)

    def __str__(self) -> str:
        width = max(16, *(len(v.name) + 2 for v in self.variables))
        lines = [f"{'variable':<{width}}{'deviation':>10}{'band':>10}{'allowance':>10}  verdict"]
        lines += [
            "".join([f"{v.name:<{width}}", *(f"{_percent(x):>10}" for x in (v.deviation, v.band, v.allowance))])
            + f"  {v.verdict}"
            for v in self.variables
        ]
        return "\n".join([*lines, self.sentence])

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON; a number that does not exist is None."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "seeds": self.seeds,
            "sizes": list(self.sizes),
            "resolution": self.resolution,
            "tolerance": self.tolerance,
            "variables": {
                v.name: {
                    "deviation": _number(v.deviation), "band": _number(v.band), "allowance": _number(v.allowance),
                    "within": _number(v.within), "verdict": v.verdict, "where": v.where, "turned": v.turned,
                }
                for v in self.variables
            },
        }  # fmt: skip


def judge(
    measured: Sequence[Measured], sizes: tuple[int, ...], resolution: float, tolerance: float, caveat: str = ""
) -> Comparison:
    """Applies the rule to every variable and says the result."""
    check_rule(resolution, tolerance)
    variables = tuple(_judge_variable(one, resolution, tolerance) for one in measured)
    verdicts = {variable.verdict for variable in variables}
    verdict: Verdict = (
        "disagrees" if "disagrees" in verdicts else "cannot tell" if "cannot tell" in verdicts else "agrees"
    )
    if verdict == "agrees" and any(one.left_at_start for one in measured):
        verdict = "cannot tell"
    seeds = min(one.seeds for one in measured)
    sentence = _sentence(verdict, variables, seeds, sizes, resolution, tolerance)
    if caveat and verdict != "agrees":
        sentence = f"{sentence} {caveat}"
    return Comparison(variables, verdict, sentence, seeds, sizes, resolution, tolerance, caveat)


def check_rule(resolution: float, tolerance: float) -> None:
    """Refuses a resolution and a tolerance that leave nothing to judge."""
    for name, value in (("resolution", resolution), ("tolerance", tolerance)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise InputError(f"{name} must be a part of the range as a number, like 0.05 for 5%, got {value!r}.")
    if not (0.0 <= resolution < tolerance <= 1.0):
        raise InputError(
            f"resolution and tolerance must satisfy 0 <= resolution < tolerance <= 1, got {resolution} and {tolerance}."
        )


def _judge_variable(measured: Measured, resolution: float, tolerance: float) -> VariableComparison:
    name, nan = measured.name, float("nan")
    if measured.broken is not None:
        where = measured.place(measured.broken[1])
        return VariableComparison(name, nan, nan, 0.0, nan, "disagrees", where, measured)
    deviation, (least, most) = np.abs(measured.deviation), lost_part(measured)
    if measured.seeds < FEWEST_SEEDS:
        at, few = int(deviation.argmax()), "disagrees" if least > resolution else "cannot tell"
        return VariableComparison(name, float(deviation[at]), nan, 0.0, nan, few, measured.place(at), measured)
    left = np.maximum(deviation - measured.allowance, 0.0)
    excess = np.where(measured.may_vanish, -np.inf, left - measured.conditional)
    within = left + measured.band
    at, band = int(excess.argmax()), measured.conditional
    verdict: Verdict = "disagrees"
    if not excess[at] > resolution:
        at, band = int(within.argmax()), measured.band
        verdict = "agrees" if within[at] < tolerance else "cannot tell"
    if least > resolution:
        # Runs that are left beside lost ones are a choice among runs: their mean is no evidence either.
        verdict = "cannot tell" if measured.loss_may_vanish else "disagrees"
    elif verdict == "agrees" and most >= tolerance:
        verdict = "cannot tell"
    return VariableComparison(
        name,
        float(deviation[at]),
        float(band[at]),
        float(measured.allowance[at]),
        float(within.max()),
        verdict,
        measured.place(at),
        measured,
        measured.turned(at),
    )


def lost_part(measured: Measured) -> tuple[float, float]:
    """The 99% interval for the probability of a run that leaves the finite numbers though the theory does not; (0, 0)
    where none was seen."""
    return outcome_interval(measured.lost, measured.lost + measured.seeds) if measured.lost else (0.0, 0.0)


def _sentence(
    verdict: Verdict,
    variables: Sequence[VariableComparison],
    seeds: int,
    sizes: tuple[int, ...],
    resolution: float,
    tolerance: float,
) -> str:
    where = f"size {sizes[-1]}" if sizes[-1] else "this size"
    diverged = next((v for v in variables if v.measured.diverged.any()), None)
    before = ""
    if diverged is not None:
        place = _place_words(diverged.measured.place(int(diverged.measured.diverged.argmax())))
        before = f"Theory and simulation both diverge{f' from {place} on' if place else ''} ({diverged.name}). "
        if diverged.measured.diverged.all():
            before = f"Theory and simulation both diverge ({diverged.name}). "
    lost = max((v.measured for v in variables), key=lambda measured: measured.lost)
    runs = f"{lost.lost} of {lost.lost + lost.seeds} runs"
    left = f" {runs} left the finite numbers, where the theory does not, and stand apart." if lost.lost else ""
    if lost_part(lost)[0] > resolution and not lost.loss_may_vanish:
        return (
            f"{before}Theory disagrees with simulation at {where}: {lost.name} of {runs} is not finite, and that of "
            f"the theory is."
        )
    if verdict == "disagrees":
        return before + _disagreement(variables, where, alone=len(sizes) == 1 and bool(sizes[0])) + left
    if seeds < FEWEST_SEEDS:
        few = f"{seeds} seed{'s are' if seeds > 1 else ' is'} too few to judge, take at least {FEWEST_SEEDS}, better 8."
        return f"{before}Cannot tell: {few}{left}"
    if verdict == "cannot tell":
        if any(v.measured.left_at_start for v in variables):
            return f"{before}Cannot tell: no later time than the start is left to compare; ask for earlier ones."
        worst = max((v for v in variables if v.verdict == "cannot tell"), key=lambda v: v.within)
        if worst.within < tolerance or lost_part(lost)[0] > resolution:
            decides = (
                "they are fewer at larger sizes: take one"
                if lost.loss_may_vanish
                else "more seeds would tell how often"
            )
            return f"{before}Cannot tell: {lost.name} of {runs} is not finite, and that of the theory is; {decides}."
        return before + _indecision(worst, seeds, resolution, tolerance, sized=bool(sizes[-1])) + left
    worst = max(variables, key=lambda v: v.within)
    taken = max(v.allowance for v in variables)
    # Where the finite-size part is smaller than what is never judged, it needs no word.
    apart = f", the part that falls with size ({taken:.1%}) set apart" if taken > resolution else ""
    size = f"within {worst.within:.1%} of range (99%), {seeds} seeds{apart}"
    return f"{before}Theory agrees with simulation at {where}: {size}.{left}"


def _disagreement(variables: Sequence[VariableComparison], where: str, alone: bool) -> str:
    """What is off, by how much and where; of a size that stands `alone`, what tells its effect from a wrong limit."""
    broken = next((v for v in variables if v.measured.broken is not None), None)
    if broken is not None and broken.measured.broken is not None:
        who, at = broken.measured.broken
        place = _place_words(broken.measured.place(at))
        return (
            f"Theory disagrees with simulation at {where}: {broken.name} of {who} is not finite"
            f"{f' at {place}' if place else ''}, and the other witness is."
        )
    wrong = max((v for v in variables if v.verdict == "disagrees"), key=lambda v: v.deviation - v.allowance - v.band)
    place = _place_words(wrong.where)
    allowed = f" and {wrong.allowance:.1%} fall with size" if wrong.allowance > 0.0 else ""
    remedy = " A second size would tell whether it falls as the size grows." if alone else ""
    return (
        f"Theory disagrees with simulation at {where}: {wrong.words} is off by {wrong.deviation:.1%} of its range"
        f"{f' at {place}' if place else ''}, where the 99% band is {_percent(wrong.band)}{allowed}.{remedy}"
    )


def _indecision(worst: VariableComparison, seeds: int, resolution: float, tolerance: float, sized: bool) -> str:
    """Why it is open, and how many seeds, or what else, would decide; `sized` says whether there is a larger size."""
    measured = worst.measured
    open_ = (
        f"Cannot tell: {worst.words} is off by {worst.deviation:.1%} of its range with a 99% band of "
        f"{_percent(worst.band)} from {seeds} seeds, and {tolerance:.1%} is asked for"
    )
    left = np.maximum(np.abs(measured.deviation) - measured.allowance, 0.0)
    at = int((left + measured.band).argmax())
    if measured.may_vanish[at] and left[at] - measured.conditional[at] > resolution:
        return f"{open_}; by all sizes together it may fall to nothing as they grow: take a larger size, or more seeds."
    if measured.own.max() >= tolerance:
        return (
            f"{open_}; the theory's own error ({measured.own.max():.1%}) is the larger part: ask it for more precision."
        )
    wanted = seeds_that_decide(measured, resolution, tolerance)
    if wanted > MOST_SEEDS:
        remedy = ": take a larger size" if sized else ""
        return f"{open_}; more seeds than {max(MOST_SEEDS, seeds)} would be needed{remedy}."
    return f"{open_}; about {wanted} seeds{' (or a larger size)' if sized else ''} would decide."


def seeds_that_decide(measured: Measured, resolution: float, tolerance: float) -> int:
    r"""A number of seeds at which the verdict would be made; more than `MOST_SEEDS` is not told apart.

    Bands fall as that of a normal law, which few seeds leave much wider than $n^{-1/2}$ says. Those that are narrower
    than it are exact ones, of outcomes, and fall as $n^{-1/2}$.
    With a band of half the way from resolution to tolerance every deviation is judged; fewer seeds do where the present
    deviation stays: every point comes within the tolerance, or one that stands out of its band beyond the resolution.
    """
    left = np.maximum(np.abs(measured.deviation) - measured.allowance, 0.0)
    band = measured.band - measured.own
    rooms = {
        "any deviation": 0.5 * (tolerance - resolution) - measured.own,
        "agree": tolerance - left - measured.own,
        "differ": np.where((left > measured.band) & ~measured.may_vanish, left - resolution - measured.own, 0.0),
    }
    counts = np.arange(measured.seeds, MOST_SEEDS + 1, dtype=float)
    exact = band < normal_width(np.array(float(measured.seeds))) * np.sqrt(measured.seeds) * measured.error

    def needed(room: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(room > 0.0, np.where(band > 0.0, room / band, np.inf), 0.0)
        few, many = (
            np.searchsorted(-widths / widths[0], -part) if widths.size else np.zeros(part.size, dtype=int)
            for widths in (normal_width(counts), counts**-0.5)
        )
        return measured.seeds + np.where(exact, many, few)

    wanted = {name: needed(room) for name, room in rooms.items()}
    decides = min(wanted["any deviation"].max(), wanted["agree"].max(), wanted["differ"].min())
    return max(int(decides), measured.seeds + 1)


def _place_words(where: dict[str, float]) -> str:
    return ", ".join(f"{dim} {value:g}" for dim, value in where.items())


def _percent(value: float) -> str:
    """A percentage with two digits that count, or a dash where there is none."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.2%}" if value < 0.1 else f"{value:.1%}" if value < 10.0 else "over 1000%"


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
