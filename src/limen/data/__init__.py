"""Your own data: arrays and files, their spectra, and learning curves predicted from them."""

from limen.data.curves import learning_curve, training_curve
from limen.data.spectra import spectrum
from limen.data.table import Table, load

__all__ = ["Table", "learning_curve", "load", "spectrum", "training_curve"]
