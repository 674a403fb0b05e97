r"""Witnesses of the flow chapter: the Gaussian model at two finite dimensions, and a real network beside it.

The theory is the limit $d\to\infty$ of the Gaussian model at any width. Widths that show the regimes ($m=200$, $10^4$)
need $d\gg m$ and $n=\alpha md$ samples of $d^2/2$ numbers each, out of reach; so the theory is solved at a small width
as well and held against the Gaussian model there, where finite dimension is told from the limit by two dimensions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from limen.comparison import Comparison, compare
from limen.experiments.figure import Line, Mark, Panel, Points, mean_and_error
from limen.experiments.flow.flow_words import ACTIVATION, TARGET, flow_activation, flow_target
from limen.experiments.number import Number
from limen.labelled import labelled
from limen.problem import GradientFlow, InputError, OverlapStart, TwoLayer, network
from limen.result import Findings, Result
from limen.theory.flow.solve import solve

CURVES = ("train_loss", "test_loss", "second_layer", "overlap")
WITNESSED = tuple(f"witness_{name}" for name in CURVES)
# Mean-field time up to which the network learns.
LEARNING = 3.0
# Local error of a step: far below the spread between seeds.
STEP_TOLERANCE = 1e-3
GRID_TOLERANCE = 3e-3
# Of a first look at a theory that takes seconds.
COARSE = 0.1
# The part of the train loss at the start down to which theory and Gaussian model are compared.
UNFITTED = 0.1
GAUSSIAN, NETWORK = 0, 1


def flow_problem(
    width: int,
    samples_per_parameter: float,
    noise: float,
    activation: str = ACTIVATION,
    target: str = TARGET,
    start: float = 1.0,
    trained: bool = True,
) -> TwoLayer:
    r"""A network of $n/(\alpha d)$ neurons, all $a_j=$ `start`, learns a target; both in the words of `flow_words`."""
    return TwoLayer(
        flow_target(target, noise),
        network(width, flow_activation(activation), second_layer=start, train_second_layer=trained),
        GradientFlow(),
        samples_per_dim=samples_per_parameter * width,
    )


def curves(result: Findings | Result) -> dict[str, np.ndarray]:
    """Losses, $a$ and $v$ against time; all neurons start alike. With several latent directions $v$ is the length of
    the overlaps with them."""
    dataset = result.dataset
    rows = {name: dataset[name].values.reshape(dataset.sizes["time"], -1) for name in CURVES}
    return {name: row[:, 0] if row.shape[1] == 1 else np.linalg.norm(row, axis=1) for name, row in rows.items()}


def sizes(d: int) -> tuple[int, int]:
    """The two dimensions of the Gaussian model: a third of `d`, and `d`."""
    return d // 3, d


def check_room(d: int, width: int) -> None:
    """Refuses dimensions in which `width` neurons and the target cannot be orthogonal."""
    if sizes(d)[0] <= width:
        raise InputError(f"d must be at least {3 * (width + 1)} with {width} simulated neurons, got {d}.")


def orthogonal(problem: TwoLayer) -> TwoLayer:
    """Neurons start exactly orthogonal to each other and to the target, as in the theory: random ones are so up to
    fluctuations of order $d^{-1/2}$, which would only add noise."""
    start = OverlapStart(0.0, gram=np.eye(problem.network.width).tolist())
    return TwoLayer(**{name: getattr(problem, name) for name in TwoLayer.model_fields} | {"start": start})


def runs_in(dimensions: Sequence[int], problem: TwoLayer, times: np.ndarray, seed: int) -> list[Findings]:
    """One draw of the Gaussian model in each dimension, then in the last of them a network on real inputs with the
    same start, neurons orthogonal to each other, and the same label noise."""
    from limen.simulation.flow.gaussian_model import sampled_gaussian_model
    from limen.simulation.flow.gradient_flow import gradient_flow

    assert problem.samples_per_dim is not None
    d, width = min(dimensions), problem.network.width
    if round(problem.samples_per_dim * d) < 1:
        raise InputError(
            f"samples_per_parameter must leave a sample for {width} neurons in {d} dimensions, "
            f"got {problem.samples_per_dim / width:g}."
        )
    problem = orthogonal(problem)
    models = [sampled_gaussian_model.solve(problem, times, d, seed, tolerance=STEP_TOLERANCE) for d in dimensions]
    return [*models, gradient_flow.solve(problem, times, dimensions[-1], seed, tolerance=STEP_TOLERANCE)]


def witness_runs(problem: TwoLayer, times: np.ndarray, d: int, seed: int) -> tuple[list[Findings], Findings]:
    """The Gaussian model in the two dimensions `sizes` of `d`, and a network in the larger one."""
    *models, real = runs_in(sizes(d), problem, times, seed)
    return models, real


def witness_theory(problem: TwoLayer, times: np.ndarray) -> tuple[xr.Dataset, Findings]:
    """The theory at the width of the witnesses: `witness_*` along `witness_time`."""
    found = solve(problem, times, tolerance=GRID_TOLERANCE)
    variables = {f"witness_{name}": (("witness_time",), values) for name, values in curves(found).items()}
    return labelled(variables, coords={"witness_time": times}), found


def witness_simulation(problem: TwoLayer, times: np.ndarray, d: int, seed: int) -> Findings:
    """`witness_*` (seed, size, witness_time) of the Gaussian model and `network_*` (seed, witness_time)."""
    models, real = witness_runs(problem, times, d, seed)
    stacked = [curves(model) for model in models]
    variables: dict = {
        f"witness_{name}": (("seed", "size", "witness_time"), np.array([[part[name] for part in stacked]]))
        for name in CURVES
    }
    variables |= {f"network_{name}": (("seed", "witness_time"), row[None]) for name, row in curves(real).items()}
    coords = {"seed": [seed], "size": list(sizes(d)), "witness_time": times}
    dataset = labelled(variables, coords=coords, attrs={"d": d})
    return joined_runs(dataset, [*models, real])


def joined_runs(dataset: xr.Dataset, runs: Sequence[Findings | Result]) -> Findings:
    """The runs of one seed as one, with the status of the first that failed."""
    worst = next((run for run in runs if not run.ok), runs[-2])
    statistics = {"gradients": sum(run.statistics["gradients"] for run in runs)}
    return Findings(dataset, worst.ok, worst.status, statistics)


def compare_dimensions(theory: Result, simulation: Result, variables: Sequence[str]) -> Comparison:
    """Simulations in two dimensions (along `size`) against the theory: a deviation $A/d$ is allowed, what stays is
    not."""
    parts = [
        replace(simulation, dataset=simulation.dataset.sel(size=size, drop=True).assign_attrs(d=int(size)))
        for size in simulation.dataset["size"].values
    ]
    return compare(theory, parts, variables=variables)


def compare_unfitted(theory: Result, simulation: Result, variables: Sequence[str]) -> Comparison:
    r"""`compare_dimensions` at times until the train loss (of every start) has fallen to a tenth.

    Nearer to interpolation the Gaussian model in $d=60$ is up to a tenth of the range away from its limit (second
    layer, test loss), and dimensions as small as 20 do not follow $A/d$: there theory and simulations are drawn, not
    judged. Larger dimensions are needed for that.
    """
    loss = theory.dataset.witness_train_loss
    fitting = loss > UNFITTED * loss.isel(witness_time=0)
    early = np.flatnonzero(fitting.any([dim for dim in loss.dims if dim != "witness_time"]).values)
    first, second = (replace(part, dataset=part.dataset.isel(witness_time=early)) for part in (theory, simulation))
    return compare_dimensions(first, second, variables)


def witness_panels(width: int, theory: Result, simulation: Result | None) -> list[Panel]:
    """Losses, and second layer with overlap, at the width of the witnesses: theory, Gaussian model, real networks."""
    times = theory.dataset.witness_time.values[1:]
    parts = (
        (r"loss $e_{tr}$ (lower), $e_{ts}$ (upper)", ("train_loss", "test_loss")),
        (r"second layer $a$ (upper), overlap $v$", ("second_layer", "overlap")),
    )
    panels = []
    for label, names in parts:
        marks: list[Mark] = []
        for i, name in enumerate(names):
            line = theory.dataset[f"witness_{name}"].values[1:]
            marks.append(Line(times, line, "theory" if i == 0 else "", GAUSSIAN))
            if simulation is None:
                continue
            found = simulation.dataset
            d = int(found["size"].values[-1])
            mean, error = mean_and_error(found[f"witness_{name}"].isel(size=-1).values)
            marks.append(Points(times, mean[1:], error[1:], f"Gaussian model, $d={d}$" * (i == 0), GAUSSIAN))
            mean, error = mean_and_error(found[f"network_{name}"].values)
            marks.append(Points(times, mean[1:], error[1:], f"real networks, $d={d}$" * (i == 0), NETWORK))
        panels.append(Panel("time $t$", label, marks, title=f"simulated width $m={width}$", x_scale="log"))
    return panels


def in_larger_dimension(dataset: xr.Dataset) -> xr.Dataset:
    """Means over seeds of the Gaussian model in the larger dimension; the theory, which has neither, as it is."""
    means = dataset.mean("seed") if "seed" in dataset.dims else dataset
    return means.isel(size=-1) if "size" in means.dims else means


def witness_numbers(dataset: xr.Dataset, width: int) -> dict[str, Number]:
    """Least test loss and largest overlap at the width of the witnesses."""
    found = in_larger_dimension(dataset)
    return {
        "witness_least_test_loss": Number(
            float(found.witness_test_loss.values.min()), f"least test loss, at the simulated width m = {width}"
        ),
        "witness_largest_overlap": Number(
            float(found.witness_overlap.values.max()),
            f"largest overlap v with the target, at the simulated width m = {width}",
        ),
    }


def network_deviations(theory: Mapping, networks: Mapping, times: np.ndarray, learning: float) -> dict[str, Number]:
    """How far real networks are from the Gaussian model, in parts of each variable's range: the worst of test loss,
    second layer and overlap up to the time `learning`, and the train loss at all times."""
    early = times <= learning
    apart = {name: np.abs(networks[name] - theory[name]) / max(np.ptp(theory[name]), 1e-12) for name in CURVES}
    while_learning = max(float(apart[name][early].max()) for name in CURVES if name != "train_loss")
    return {
        "network_deviation_learning": Number(
            while_learning, f"largest deviation of real networks from the theory while they learn, t ≤ {learning:.3g}"
        ),
        "network_deviation_train_loss": Number(
            float(apart["train_loss"].max()), "largest deviation of the train loss of real networks from the theory"
        ),
    }


def with_network_deviations(
    headline: Mapping[str, dict[str, float]], theory: Result, simulation: Result | None, learning: float
) -> dict[str, dict[str, float]]:
    """Adds `network_deviations`, which take both witnesses; the theory is at no distance from itself."""
    expected = {name: theory.dataset[f"witness_{name}"].values for name in CURVES}
    networks = {"theory": expected}
    if simulation is not None:
        networks["simulation"] = {name: simulation.dataset[f"network_{name}"].mean("seed").values for name in CURVES}
    times = theory.dataset.witness_time.values
    return {
        witness: {**numbers, **network_deviations(expected, networks[witness], times, learning)}
        for witness, numbers in headline.items()
    }
