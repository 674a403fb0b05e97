from .theory.descent.answered import solve as solve
from .theory.descent.escape import average_run as average_run
from .theory.descent.escape import finite_size as finite_size
