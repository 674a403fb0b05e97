"""Facts about a link alone, shared by every chapter."""

from limen.link.hard_subspace import HardSubspace, hard_subspace
from limen.link.information_exponent import escape_sign, information_exponent
from limen.link.leap import leap

__all__ = ["HardSubspace", "escape_sign", "hard_subspace", "information_exponent", "leap"]
