from .theory.descent.answered import solve as solve
from .theory.descent.escape import average_run as average_run
from .theory.descent.escape import finite_size as finite_size
from .theory.descent.modular_addition import modular_solution as modular_solution
from .theory.descent.modular_addition import random_solution_accuracy as random_solution_accuracy
