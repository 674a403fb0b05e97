"""Rows of the two-time equations, held against the equations written out time by time, and steps as long as allowed."""

from typing import Any

import numpy as np
import pytest

import limen
from limen.theory.flow.history import History
from limen.theory.flow.integrator import add_row, backward_formula, follow
from limen.theory.flow.kernels import KernelEquations, Kernels, Row, collective, empty_row
from limen.theory.flow.long_times.anderson import Anderson
from limen.theory.flow.model import gaussian_model
from limen.theory.flow.row import MOST_ITERATIONS, PATIENCE, RowEquations, solve_row

SERIES, LABEL = (0.3, 0.7, 0.5), (0.2, 0.8, 0.4)


def problem(second_layer: tuple[float, ...], overlap: tuple[float, ...], **changes: Any) -> limen.TwoLayer:
    parts: dict[str, Any] = {
        "target": limen.target(hermite=list(LABEL), noise=0.3),
        "network": limen.network(
            len(second_layer), limen.activation(hermite=list(SERIES)), second_layer, train_second_layer=True
        ),
        "algorithm": limen.GradientFlow(),
        "samples_per_dim": 2.4,
        "start": limen.OverlapStart(tuple((v,) for v in overlap)),
    }
    return limen.TwoLayer(**parts | changes)


CASES = {
    "one neuron": ((1.4,), (0.2,)),
    "one group": ((1.4, 1.4, 1.4), (0.2, 0.2, 0.2)),
    "unequal groups": ((1.4, 1.4, -0.8), (0.2, 0.2, -0.5)),
    "two pairs": ((1.4, 1.4, -0.8, -0.8), (0.2, 0.2, -0.5, -0.5)),
}


def last_row(history: History) -> tuple[Row, Kernels]:
    """The newest row of a history, and its kernels from the rows before."""
    model, n = history.model, history.count - 1
    groups = model.groups
    row = empty_row(groups, model.latents, n + 1)
    row.modes[:, :groups] = history.relative[:, :, n, : n + 1]
    wanted = history.collective[:, n * groups : (n + 1) * groups, : (n + 1) * groups]
    collective(row.modes, groups)[:] = wanted.reshape(2, groups, n + 1, groups)
    row.second_layer[:], row.overlap[:] = history.second_layer[n], history.overlap[n]
    return row, KernelEquations(history, n)(row)


@pytest.mark.parametrize("decay", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_row_obeys_the_two_time_equations_as_they_are_written(case: str, decay: bool):
    """Derivative, multiplier, decay and memory summed one time after the other, in every mode."""
    width = len(CASES[case][0])
    algorithm = limen.GradientFlow(weight_decay=(0.2 * np.eye(width) + 0.3).tolist() if decay else 0.0)
    model = gaussian_model(problem(*CASES[case], algorithm=algorithm))
    history, _ = follow(model, np.geomspace(0.1, 2.1, 12) - 0.1)
    n, groups, times = history.count - 1, model.groups, history.time
    b = backward_formula(times[n] - times[n - 1], times[n - 1] - times[n - 2])
    _, kernels = last_row(history)
    nu = np.diag(history.multiplier[n])
    relative_rate, collective_rate = np.zeros(groups), np.zeros((groups, groups))
    if model.decay is not None:
        relative_rate, collective_rate = model.decay.modes(times[n])
    root = np.sqrt(model.sizes)
    blocks = history.collective[:, : (n + 1) * groups, : (n + 1) * groups].reshape(2, n + 1, groups, n + 1, groups)
    memory_c, memory_r = collective(kernels.memory, groups).transpose(0, 2, 1, 3)
    force, along = kernels.force * root[:, None], history.overlap * root[:, None]
    for j in range(1, n + 1):
        for kind, source in enumerate((force @ along[j].T, (j == n) * np.eye(groups))):
            x = blocks[kind, :, :, j]
            left = b[0] * x[n] + b[1] * x[n - 1] + b[2] * x[n - 2] + (nu + collective_rate) @ x[n]
            left = left + sum(memory_r[k] @ x[k] for k in range(n + 1))
            right = source + (sum(memory_c[k] @ blocks[1, j, :, k].T for k in range(j + 1)) if kind == 0 else 0.0)
            assert left == pytest.approx(right, abs=1e-6 * b[0])
        for g in model.several:
            c, r = history.relative[:, g, : n + 1, : n + 1]
            (mc, mr), rate = kernels.memory[:, g], history.multiplier[n, g] + relative_rate[g]
            for x, right in ((c[:, j], mc[: j + 1] @ r[j, : j + 1]), (r[:, j], float(j == n))):
                left = b[0] * x[n] + b[1] * x[n - 1] + b[2] * x[n - 2] + rate * x[n] + mr @ x
                assert left == pytest.approx(right, abs=1e-6 * b[0])
    # The same sums without the oldest derivative are off by far more: the check sees a wrong term.
    assert np.abs(b[2] * blocks[0, n - 2, :, n - 1]).max() > 1e-3 * b[0]


@pytest.mark.parametrize("case", CASES)
def test_a_solved_row_is_the_limit_of_the_plain_iteration(case: str):
    model = gaussian_model(problem(*CASES[case]))
    history, _ = follow(model, np.linspace(0.0, 0.5, 9))
    row, _ = last_row(history)
    history.count -= 1
    step = history.time[1]
    equations = RowEquations(history, backward_formula(step, step), history.time[history.count])
    point = row
    for _ in range(60):
        point = equations.image(point)
    assert row.vector == pytest.approx(point.vector, abs=1e-8)


def test_a_row_without_solution_is_given_up_early_and_leaves_the_history(monkeypatch: pytest.MonkeyPatch):
    """An image that always lies at the same distance."""
    history = History(gaussian_model(problem(*CASES["one group"])))
    guess = empty_row(1, 1, 2)
    guess.modes[1] = 0.1
    equations, calls = RowEquations(history, backward_formula(0.1, None), 0.1), []

    def image(_: RowEquations, row: Row) -> Row:
        calls.append(1)
        return Row(row.vector + (-1.0) ** len(calls), 1, 1)

    monkeypatch.setattr(RowEquations, "image", image)
    monkeypatch.setattr(Anderson, "next", lambda self, image, residual: image)
    assert solve_row(equations, guess) is None
    assert PATIENCE < len(calls) < MOST_ITERATIONS / 2
    assert add_row(history, 0.1) is None
    assert history.count == 1


def test_the_longest_steps_keep_the_stated_error():
    """Learning and fitting noise over two decades, against a grid four times as fine or more."""
    times, asked = np.geomspace(0.5, 50.0, 16), problem(*CASES["one group"], samples_per_dim=1.5)
    exact = limen.flow.solve(asked, times, tolerance=2e-4).dataset
    for tolerance in (1e-2, 5e-3):
        found = limen.flow.solve(asked, times, tolerance=tolerance)
        stated = float(found.dataset.grid_error.max())
        assert found.ok
        assert stated < tolerance
        for name in ("train_loss", "test_loss", "overlap", "gram"):
            assert float(np.abs(found.dataset[name] - exact[name]).max()) < stated
