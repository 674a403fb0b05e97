r"""What a network has beside its first layer: second layer $a$ and biases $b$, numbers of order one.

Where they are trained they follow means over samples,

$$a_j\leftarrow a_j-\eta\,\epsilon_a\,E\Big[\frac{\ell'(y,f)}m\sigma(V_j+b_j)\Big],\qquad
b_j\leftarrow b_j-\eta\,E\Big[\frac{\ell'(y,f)}ma_j\sigma'(V_j+b_j)\Big]=b_j-E[F_j],$$

or the same gradients through another rule. A single sample does not move them: no field remembers it through them, and
the equations of the first layer stay as they are, with $a(t)$ and $b(t)$ in the forces.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from limen.problem import GradientDescent, TwoLayer
from limen.problem.algorithms import Descent, move_of


class OuterWeights:
    r"""`second_layer` and `bias` at steps 0..T, shape (..., T+1, m): axes of runs first, neurons (or groups) last.

    `chosen` are the neurons that are followed, all by default. `apply` is the step of the rule, where it is not that of
    the problem's algorithm itself.
    """

    def __init__(
        self,
        problem: TwoLayer,
        steps: int,
        runs: tuple[int, ...] = (),
        chosen: Any = slice(None),
        apply: Callable[..., Any] | None = None,
    ) -> None:
        algorithm, network = problem.algorithm, problem.network
        assert isinstance(algorithm, Descent)
        self.second_layer, self.bias = (
            np.tile(np.asarray(network.per_neuron(name), dtype=float)[chosen], (*runs, steps + 1, 1))
            for name in ("second_layer", "bias")
        )
        move, self._numbers = move_of(algorithm)
        self._apply = move.apply if apply is None else apply
        self._ratio = algorithm.second_layer_ratio if isinstance(algorithm, GradientDescent) else 1.0
        self._trained = {"second_layer": network.train_second_layer, "bias": network.train_bias}
        width = self.bias.shape[-1]
        self._memory = {name: np.zeros((move.memories, *runs, width)) for name in self._trained}

    @property
    def moves(self) -> bool:
        """Whether any of them is trained: else nobody asks for their gradients."""
        return any(self._trained.values())

    def at(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Second layer and biases after `t` steps, shape (..., m)."""
        return self.second_layer[..., t, :], self.bias[..., t, :]

    def advance(self, t: int, step: float, second_layer_pull: np.ndarray, bias_pull: np.ndarray) -> None:
        """Step `t` with learning rate `step`, given the gradients (..., m) of the mean loss."""
        for name, size, pull in (
            ("second_layer", self._ratio * step, second_layer_pull),
            ("bias", step, bias_pull),
        ):
            values, memory = getattr(self, name), self._memory[name]
            values[..., t + 1, :] = values[..., t, :]
            if self._trained[name]:
                values[..., t + 1, :], self._memory[name] = self._apply(
                    self._numbers, size, 1.0, t, values[..., t, :], np.asarray(pull, dtype=float), memory
                )

    def restart(self, lost: np.ndarray, t: int) -> None:
        """Runs that are lost go on from zero after `t` steps."""
        for name, memory in self._memory.items():
            memory[:, lost] = 0.0
            getattr(self, name)[lost, t] = 0.0

    def end(self, t: int) -> None:
        """All from step `t` on is unknown."""
        self.second_layer[..., t:, :], self.bias[..., t:, :] = np.nan, np.nan
