"""Limits as the sizes go to infinity. Nothing here imports `limen.simulation`."""

from limen.machine.compilation import keep_compiled

keep_compiled()
