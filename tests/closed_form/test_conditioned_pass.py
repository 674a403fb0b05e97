"""Gradient descent by Gaussian conditioning: closed forms, its limits, and the other theory where both hold."""

import numpy as np
import pytest
from scipy.stats import beta, kstest

import limen
from limen.theory.descent import finite_dimension
from limen.theory.descent.batches import draw_batches
from limen.theory.descent.conditioned_pass import Run
from limen.theory.descent.solve import conditioned_set


def linear_neuron(algorithm: limen.GradientDescent, delta: float = 2.0, noise: float = 0.3) -> limen.TwoLayer:
    return limen.TwoLayer(limen.target("z", noise=noise), limen.network(1, "linear"), algorithm, samples_per_dim=delta)


def one_set(problem: limen.TwoLayer, steps: int, paths: int, seed: int) -> Run:
    """One set of paths at infinite dimension, without the axis of runs."""
    return conditioned_set(problem, steps, paths, seed)


def phase_retrieval(delta: float = 10.0, start: float | None = None, **changes) -> limen.TwoLayer:
    options = {
        "target": limen.target("z**2"),
        "network": limen.network(1, "gelu"),
        "algorithm": limen.GradientDescent(1.2),
        "samples_per_dim": delta,
        "loss": "huber:1",
    } | changes
    if start is not None:
        options["start"] = limen.OverlapStart(start)
    return limen.TwoLayer(**options)


def eigenvalues_of_covariance(delta: float) -> tuple[np.ndarray, np.ndarray]:
    angle = np.pi * (np.arange(2000) + 0.5) / 2000
    x = 1.0 + 1.0 / delta + 2.0 / np.sqrt(delta) * np.cos(angle)
    weight = np.sin(angle) ** 2 / x
    return x, weight / weight.sum()


@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("nesterov", [False, True])
def test_a_linear_neuron_is_marchenko_pastur(momentum, nesterov):
    """Modes $x$ of the covariance obey $u\\leftarrow\\beta u-\\eta x(\\theta-\\theta_*)$ each for itself."""
    delta, step, steps = 2.0, 0.4, 10
    algorithm = limen.GradientDescent(step, momentum=momentum, nesterov=nesterov)
    found = one_set(linear_neuron(algorithm, delta, 0.0), steps, 4096, 0)
    x, w = eigenvalues_of_covariance(delta)
    error, velocity = np.ones_like(x), np.zeros_like(x)
    overlap, square, loss = [0.0], [1.0], [1.0]
    for _ in range(steps):
        push = -step * x * error
        velocity = momentum * velocity + push
        error = error + (momentum * velocity + push if nesterov else velocity)
        overlap.append(w @ (1.0 - error))
        # The start is orthogonal to the target: its part of a mode shrinks by `error` as well.
        square.append(w @ ((1.0 - error) ** 2 + error**2))
        loss.append(w @ (x * error**2))
    coefficients = found.coefficients
    assert coefficients[:, 0, 0] == pytest.approx(np.array(overlap), abs=2e-5)
    assert np.einsum("tc,tc->t", coefficients[:, 0], coefficients[:, 0]) == pytest.approx(np.array(square), abs=2e-5)
    assert found.train_loss == pytest.approx(np.array(loss), abs=2e-5)


def test_it_is_the_theory_with_responses():
    problem = limen.TwoLayer(
        limen.target("tanh(2*z1) + tanh(z1*z2)"),
        limen.network(3, "tanh", second_layer=(2.0, -2.0, 3.0), bias=(0.0, 0.3, -0.3), train_second_layer=True),
        limen.GradientDescent(1.2, weight_decay=0.05),
        samples_per_dim=4.0,
    )
    steps = 8
    one = limen.descent.solve(problem, steps, paths=8192, scrambles=3).dataset
    sets = [one_set(problem, steps, 16384, i) for i in range(3)]

    def close(name: str, values: list[np.ndarray]) -> None:
        mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) + one[f"{name}_spread"].values
        scale = np.abs(one[name].values).max()
        assert (np.abs(mean - one[name].values) < 3.0 * error + 2e-3 * scale).all(), name

    close("train_loss", [found.train_loss for found in sets])
    close("second_layer", [found.second_layer for found in sets])
    close("overlap", [found.coefficients[:, :, :2] for found in sets])
    close("correlation", [np.einsum("tic,ujc->tuij", c, c) for c in (found.coefficients for found in sets)])


def test_an_informed_start_at_huge_dimension_is_the_limit():
    problem = phase_retrieval(start=0.3)
    limit = limen.predict(problem, 12, paths=8192, scrambles=3).dataset
    runs = limen.predict(problem, 12, d=10**8, seeds=3, paths=16384).dataset
    for name in ("train_loss", "test_loss", "overlap", "gram"):
        difference = np.abs(runs[name].mean("seed").values - limit[name].values)
        error = runs[name].std("seed", ddof=1).values + limit[f"{name}_spread"].values
        assert (difference < 3.0 * error + 3e-3).all(), name


def test_a_row_is_replayed_alone_and_starts_like_its_simulation():
    problem = phase_retrieval()
    both = limen.predict(problem, 4, d=100, seeds=[3, 5], paths=1024).dataset
    alone = limen.predict(problem, 4, d=100, seeds=[5], paths=1024).dataset
    np.testing.assert_array_equal(both.train_loss.values[1], alone.train_loss.values[0])
    simulation = limen.simulate(problem, 4, d=100, seeds=[3, 5]).dataset
    np.testing.assert_allclose(both.overlap.values[:, 0], simulation.overlap.values[:, 0], atol=1e-6)
    assert np.unique(both.train_loss.values[:, -1]).size == 2


def test_even_labels_leave_a_pinned_overlap_alone():
    problem = phase_retrieval(target=limen.target("tanh(z1) + z2*z3"), network=limen.network(2, "gelu"))
    found = one_set(problem, 5, 2048, 0)
    assert np.abs(found.stray).max() < 1e-6


def test_whole_batches_are_no_batches_and_every_epoch_sees_everything_once():
    random = np.random.default_rng(0)
    assert draw_batches(limen.GradientDescent(0.1), 3, 8, [random]) is None
    by_epoch = draw_batches(limen.GradientDescent(0.1, batch_fraction=0.25, replacement=False), 8, 4096, [random])
    assert by_epoch is not None
    np.testing.assert_allclose(by_epoch.seen[0].reshape(2, 4, -1).sum(axis=1), 4.0)
    anew = draw_batches(limen.GradientDescent(0.1, batch_fraction=0.25), 8, 4096, [random])
    assert anew is not None
    for batches in (by_epoch, anew):
        assert set(np.unique(batches.seen)) == {0.0, 4.0}
        np.testing.assert_allclose(batches.seen[0].mean(axis=1), 1.0, atol=0.12)
        np.testing.assert_allclose(batches.expected[0].mean(axis=1), 1.0, atol=0.12)


@pytest.mark.parametrize("replacement", [True, False])
def test_the_first_batch_of_a_linear_neuron(replacement):
    """$\\theta_*\\cdot\\theta(1)=\\eta$ and $|\\theta(1)|^2=(1-\\eta)^2+\\eta^2+\\eta^2(2+s^2)/(\\delta b)$."""
    step, part, delta, noise = 0.3, 0.25, 2.0, 0.3
    algorithm = limen.GradientDescent(step, batch_fraction=part, replacement=replacement)
    found = one_set(linear_neuron(algorithm, delta, noise), 1, 16384, 0).coefficients[1, 0]
    assert found[0] == pytest.approx(step, abs=1e-5)
    square = (1 - step) ** 2 + step**2 + step**2 * (2 + noise) / (delta * part)
    assert np.sum(found**2) == pytest.approx(square, rel=0.02)


def test_softplus_converges_to_relu():
    def problem(activation: str) -> limen.TwoLayer:
        return limen.TwoLayer(
            limen.target("z + z**2"),
            limen.network(1, activation, second_layer=2.0),
            limen.GradientDescent(0.4),
            samples_per_dim=4.0,
        )

    # The same points for all three, so that their errors drop out.
    relu, *smooth = (
        one_set(problem(name), 6, 16384, 0).coefficients for name in ("relu", "softplus(3*z)/3", "softplus(20*z)/20")
    )
    kernel = np.einsum("tic,uic->tu", relu, relu)
    gaps = [float(np.abs(np.einsum("tic,uic->tu", one, one) - kernel).max() / kernel.max()) for one in smooth]
    assert gaps[1] < 0.01 and gaps[1] < 0.2 * gaps[0], gaps


def test_a_kink_leaves_out_responses_only():
    problem = phase_retrieval(network=limen.network(1, "relu"))
    found = limen.predict(problem, 3, scrambles=2, paths=1024)
    assert found.ok and "without responses" in found.status
    assert "response" not in found.dataset and "correlation_spread" in found.dataset


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: limen.predict(phase_retrieval(), 4, seeds=3), "seeds need d"),
        (lambda: limen.predict(phase_retrieval(), 4, d=100, scrambles=3), "scrambles must be left out with d"),
        (lambda: limen.predict(phase_retrieval(), 400, d=100, paths=1024), "paths must be at least four times"),
        (lambda: limen.predict(phase_retrieval(), 4, d=0), "d must be a positive whole number"),
        (
            lambda: limen.predict(phase_retrieval(target=limen.target("sign(z1*z2*z3)")), 3, d=10**6, paths=1024),
            "paths must be about",
        ),
        (
            lambda: limen.predict(phase_retrieval(network=limen.network(32, "gelu")), 100, d=100, paths=2**18),
            "needs .* GB",
        ),
        (lambda: limen.thresholds.hessian(phase_retrieval(network=limen.network(1, "relu")), 3), "has a kink"),
        (
            lambda: limen.predict(phase_retrieval(), 5, d=320, seeds=2, paths=1000),
            "paths must be a power of two, got 1000",
        ),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(limen.InputError, match=words) as error:
        call()
    assert str(error.value).count(". ") == 0


def test_a_diverging_run_says_so():
    problem = phase_retrieval(algorithm=limen.GradientDescent(500.0), loss="square")
    found = finite_dimension.runs(problem, 8, 100, 2, 1024)
    assert not found.ok and "smaller step" in found.status
    assert np.isfinite(found.dataset.train_loss.values[:, 0]).all()


@pytest.mark.parametrize(("width", "steps", "paths"), [(1, 50, 4096), (3, 40, 8192), (10, 50, 32768)])
def test_paths_grow_with_the_directions_of_a_run(width, steps, paths):
    """48 for each direction: with 16 a run of width 3 escapes in 79 of 100 cases where training does in 90."""
    problem = limen.TwoLayer(
        limen.target("z**2"), limen.network(width, "gelu"), limen.GradientDescent(1.0), samples_per_dim=8.0
    )
    assert finite_dimension.usual_paths(problem, steps) == paths


def test_the_train_loss_at_the_start_fluctuates_like_a_mean_over_the_sample():
    r"""A linear neuron of overlap $m$ errs by $N(0,2-2m+\sigma^2)$: its half square has variance $(2-2m+\sigma^2)^2/2$,
    and the mean over $n=\delta d$ samples an $n$-th of it."""
    given = linear_neuron(limen.GradientDescent(0.1), delta=6.0).model_copy(update={"start": limen.OverlapStart(0.4)})
    losses = finite_dimension.runs(given, [0], 40, 256, 1024).dataset.train_loss.values[:, 0]
    square = 2.0 - 0.8 + 0.3
    assert losses.mean() == pytest.approx(0.5 * square, abs=4.0 * square / np.sqrt(2.0 * 240 * 256))
    assert losses.std() == pytest.approx(square / np.sqrt(2.0 * 240), rel=0.2)


def test_placed_starts_are_uniform_on_their_sphere():
    """Two of five coordinates of a neuron have the squared length of a Beta(1, 3/2); beside the target neurons keep
    their angle."""
    network, d = limen.network(2, "gelu", initial_norm=1.5), 5
    given = phase_retrieval(target=limen.target("z1*z2"), network=network)
    normals, shared = np.random.default_rng(0).standard_normal((1200, 4)), np.array([[2.0, 0.4], [0.4, 1.0]])
    overlap = np.array([[0.3, 0.1], [-0.2, 0.5]])
    squares = []
    for row, one in enumerate(normals):
        placed, gram = finite_dimension._placed(given, d, row, overlap, shared + overlap @ overlap.T, one)
        np.testing.assert_allclose(np.diag(gram), 1.5**2, rtol=1e-12)
        rest = gram - placed @ placed.T
        assert rest[0, 1] / np.sqrt(rest[0, 0] * rest[1, 1]) == pytest.approx(0.4 / np.sqrt(2.0), rel=1e-9)
        np.testing.assert_allclose(placed / one.reshape(2, 2), (placed / one.reshape(2, 2))[:, :1] * [[1.0, 1.0]])
        squares.append((placed**2).sum(axis=1) / 1.5**2)
    assert kstest(np.ravel(squares), beta(1.0, 1.5).cdf).pvalue > 1e-3


def test_a_penalty_enters_the_first_step_as_it_is():
    """Its matrix from the left, one row for each neuron, whether or not it is symmetric."""
    network = limen.network(2, "tanh", (1.5, -1.0), train_second_layer=True)
    given = limen.TwoLayer("z", network, limen.GradientDescent(0.5), 2.0, start=limen.OverlapStart(((0.3,), (-0.1,))))
    matrix = np.array([[0.2, 0.7], [-0.1, 0.4]])
    plain, pulled = (conditioned_set(given, 1, 1024, 0, of) for of in (None, lambda step: (matrix, 0.3)))
    moved = pulled.coefficients[1] - plain.coefficients[1]
    np.testing.assert_allclose(moved, -0.5 * matrix @ plain.coefficients[0], atol=1e-7)
    np.testing.assert_allclose(pulled.second_layer[1] - plain.second_layer[1], [-0.15 * 1.5, 0.15], atol=1e-7)
