r"""From how many parameters on a network fits every label, whatever the labels are: a bound.

At a minimum with labels unfitted the Hessian is a positive part of rank at most $nC$ ($n$ samples, $C$ outputs) plus
the second derivatives of the network, which alone have a share of about one half of negative eigenvalues. A stable
minimum needs $nC\ge N/2$; with $N>2nC$ parameters there is none, and descent that is patient enough fits everything.
The argument knows depth, loss and labels only through these counts (Spigler et al. 2018; Geiger et al. 2018).
"""

import numpy as np

# Share of the Hessian's directions that the second derivatives of the network alone would make unstable.
UNSTABLE = 0.5
# Pixels of a handwritten digit.
PIXELS = 64


def network_parameters(inputs: int, width: int | np.ndarray, depth: int, outputs: int) -> int | np.ndarray:
    """Weights of a fully connected network of `depth` layers without biases; `width` may be an array."""
    return inputs * width + (depth - 2) * width**2 + width * outputs


def fitting_line(samples: int, outputs: int) -> float:
    """Parameters beyond which no stable minimum with labels unfitted is left, $N=2nC$."""
    return samples * outputs / UNSTABLE
