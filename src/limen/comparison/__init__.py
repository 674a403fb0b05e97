"""Where theory and simulation meet: deviation, simultaneous band, finite-size allowance, one verdict."""

from limen.comparison.against import compare, compare_sizes
from limen.comparison.bands import simultaneous_band
from limen.comparison.verdict import Comparison, VariableComparison, Verdict

__all__ = ["Comparison", "VariableComparison", "Verdict", "compare", "compare_sizes", "simultaneous_band"]
