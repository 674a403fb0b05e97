"""Finite-size training, plainly run: the second witness beside theory, which it never imports."""

from limen.machine.compilation import keep_compiled

keep_compiled()
