"""Facts about a link alone, shared by every chapter."""

from limen.link.information_exponent import escape_sign, information_exponent

__all__ = ["escape_sign", "information_exponent"]
