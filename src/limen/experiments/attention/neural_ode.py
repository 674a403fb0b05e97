"""A residual network becomes a differential equation as its depth grows, and the distance falls like one over depth."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from limen.comparison import Comparison, compare
from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, counted, mean_and_error
from limen.experiments.number import Number
from limen.experiments.typeset import typeset
from limen.problem import Activation
from limen.result import Findings, Result
from limen.simulation.attention.residual_network import draw_depth_weights, hidden_states, residual_network
from limen.simulation.generators import numpy_generator
from limen.theory.attention.neural_ode import DepthLimit, neural_ode

DOUBLINGS, JUDGED, MOMENTS, SHOWN = 6, 4, 81, 2
MEASURES = ("length", "along the prediction")


class NeuralODE(Experiment):
    r"""$x_{k+1}=x_k+\frac TL\,w_k\,\sigma(a_kx_k+b_k)$, $L$ residual layers with weights that vary smoothly with depth,
    against $\dot x=w\,\sigma(ax+b)$.

    The network is Euler's method for the differential equation. Its output is $x(T)+c/L+O(L^{-2})$, where
    $c=T\,e(T)$ is carried along the path by $\dot e=\partial_xf\,e-\frac12\ddot x$: the limit *and* the first
    correction are predicted. Each seed draws weights and an input.

    What to see: hidden states of a shallow network beside the path of the equation; an error that falls with slope
    $-1$; $L$ times the error, which tends to $|c|$ with no fitted constant. The comparison judges the output and, at
    the largest depth, the length of $L(x_L-x(T))$ and its part along $c$, each over $|c|$, against one; a fit in $1/L$
    over the four largest depths says what is left to finite depth.
    """

    name: ClassVar[str] = "neural-ode"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "A residual network follows an ODE; the predicted error falls like one over depth."
    citations: ClassVar[tuple[str, ...]] = ("weinan2017", "chen2018")
    size_field: ClassVar[str] = "depth"
    default_seeds: ClassVar[int] = 16
    paired: ClassVar[bool] = True
    compared: ClassVar[tuple[str, ...] | None] = ("output", "scaled_error")
    quick: ClassVar[dict[str, float]] = {"depth": 64, "d": 3, "hidden": 8}
    quick_seeds: ClassVar[int] = 16

    activation: Literal["tanh", "erf", "gelu", "softplus", "sigmoid"] = Field(
        "tanh", description="activation σ, smooth"
    )
    d: int = Field(6, ge=1, le=200, description="dimension of the states x")
    hidden: int = Field(24, ge=1, le=1_000, description="width h of each layer")
    duration: float = Field(3.0, gt=0.0, le=10.0, description="time T of the limit: the network moves by T/L a layer")
    depth: int = Field(512, ge=64, le=65_536, description="layers L of the deepest network")

    def depths(self) -> np.ndarray:
        """Depths of the sweep, each half the next."""
        return self.depth // 2 ** np.arange(DOUBLINGS - 1, -1, -1)

    def times(self) -> np.ndarray:
        """Times of the path."""
        return np.linspace(0.0, self.duration, MOMENTS)

    def _input(self, seed: int) -> np.ndarray:
        return numpy_generator(seed, self.d, "residual network input").standard_normal((1, self.d))

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        seeds = seeds or tuple(range(self.default_seeds))
        limits = [_limit(self, seed) for seed in seeds]
        path = np.stack([limit.path[:, 0] for limit in limits])
        coefficient = np.stack([limit.coefficient[-1, 0] for limit in limits])
        dataset = xr.Dataset(
            {
                "output": (
                    ("seed", "depth", "coordinate"),
                    path[:, None, -1] + coefficient[:, None] / self.depths()[:, None],
                ),
                "scaled_error": (("seed", "measure"), np.ones((len(seeds), len(MEASURES)))),
                "coefficient": (("seed", "coordinate"), coefficient),
                "limit": (("seed", "coordinate"), path[:, -1]),
                "path": (("seed", "time", "coordinate"), path),
                "slope_in_depth": -1.0,
            },
            coords={"seed": list(seeds), "depth": self.depths(), "time": self.times(), "measure": list(MEASURES)},
            attrs={"d": self.depth},
        )
        status = "the equation and its first correction integrated to 1e-10, for each seed's weights."
        return Findings(dataset, True, status)

    def train(self, seed: int) -> Findings:
        weights, activation = draw_depth_weights(self.d, self.hidden, seed), Activation(formula=self.activation)
        start, depths = self._input(seed), self.depths().tolist()
        outputs = [residual_network(start, weights, activation, depth, self.duration)[0] for depth in depths]
        states = hidden_states(start, weights, activation, depths[0], self.duration)[:, 0]
        distances = np.linalg.norm(np.array(outputs) - _limit(self, seed).path[-1, 0], axis=1)
        dataset = xr.Dataset(
            {
                "output": (("seed", "depth", "coordinate"), np.array([outputs])),
                "states": (("seed", "layer", "coordinate"), states[None]),
                "distance": (("seed", "depth"), distances[None]),
            },
            coords={"seed": [seed], "depth": self.depths(), "layer": np.arange(len(states))},
            attrs={"d": self.depth},
        )
        ok = bool(np.isfinite(outputs).all())
        status = f"networks of up to {self.depth} layers."
        if not ok:
            status = "the outputs are not finite: take a shorter duration."
        return Findings(dataset, ok, status)

    def compare(self, theory: Result, simulation: Result) -> Comparison:
        """At the largest depth, three smaller ones telling how much of the gap is finite depth."""
        measured = simulation.dataset[["output"]].assign(scaled_error=self._scaled_errors(theory, simulation))
        predicted = theory.dataset[["output", "scaled_error"]]
        pairs = [
            [
                replace(result, dataset=dataset.sel(depth=depth).drop_vars("depth").assign_attrs(d=depth))
                for result, dataset in ((theory, predicted), (simulation, measured))
            ]
            for depth in self.depths()[-JUDGED:].tolist()
        ]
        theories, simulations = map(list, zip(*pairs, strict=True))
        return compare(theories, simulations, variables=self.compared)

    def _scaled_errors(self, theory: Result, simulation: Result) -> xr.DataArray:
        """Length of $L(x_L-x(T))$ and its part along $c$, over $|c|$, (seed, depth, measure); one in theory.

        Signed coordinates would not do: over random draws they average to zero, and so would errors in proportion.
        """
        outputs = simulation.dataset.output
        prediction = theory.dataset[["limit", "coefficient"]].sel(seed=outputs.seed)
        size = np.sqrt((prediction.coefficient**2).sum("coordinate"))
        errors = outputs.depth * (outputs - prediction.limit) / size
        length = np.sqrt((errors**2).sum("coordinate"))
        along = (errors * prediction.coefficient).sum("coordinate") / size
        both = xr.concat([length, along], dim="measure").assign_coords(measure=list(MEASURES))
        return both.transpose("seed", "depth", "measure")

    def _lengths(self, theory: Result, simulation: Result) -> tuple[np.ndarray, np.ndarray]:
        """$L|x_L-x(T)|$ (seed, depth), and $|c|$ (seed, 1)."""
        own = theory.dataset.coefficient.sel(seed=simulation.dataset.seed).values
        sizes = np.linalg.norm(own, axis=1, keepdims=True)
        return sizes * self._scaled_errors(theory, simulation).sel(measure="length").values, sizes

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        prediction, depths = theory.dataset, self.depths()
        sizes = np.linalg.norm(prediction.coefficient.values, axis=-1)
        shown = range(min(SHOWN, self.d))
        path: list[Mark] = [
            Line(self.times(), prediction.path.values[0, :, i], "ODE" if i == 0 else "", colour=i) for i in shown
        ]
        fall: list[Mark] = [Line(depths, sizes.mean() / depths, r"theory $|c|/L$")]
        scaled: list[Mark] = [Line(depths, np.ones(depths.size), "theory")]
        if simulation is not None:
            states = simulation.dataset.states.values[0]
            moments = np.linspace(0.0, self.duration, len(states))
            path += [
                Points(moments, states[:, i], None, f"{depths[0]} layers" if i == 0 else "", colour=i) for i in shown
            ]
            lengths, own = self._lengths(theory, simulation)
            label = f"networks, {counted(len(simulation.seeds), 'draw')}"
            fall.append(Points(depths, *mean_and_error(lengths / depths), label))
            # Each draw by its own coefficient: draws differ far more from each other than from their predictions.
            scaled.append(Points(depths, *mean_and_error(lengths / own), label))
        decades = (10.0 ** np.floor(np.log10(depths[0])), 10.0 ** np.ceil(np.log10(depths[-1])))
        return Figure(
            [
                Panel(
                    r"time $t$ = layer $\times\,T/L$", r"$x(t)$" if self.d == 1 else r"two coordinates of $x(t)$", path
                ),
                Panel("layers $L$", r"error $|x_L-x(T)|$", fall, x_scale="log", y_scale="log", x_range=decades),
                Panel("layers $L$", r"$L\,|x_L-x(T)|\,/\,|c|$", scaled, x_scale="log", x_range=decades),
            ],
            title=f"Residual networks and their ODE, {typeset(self.activation)}, $d={self.d}$, $T={self.duration:g}$",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        if "slope_in_depth" in dataset:
            slope, scaled = dataset.slope_in_depth, np.linalg.norm(dataset.coefficient.values, axis=-1)
        else:
            distances, deep = dataset.distance.values, slice(-JUDGED, None)
            slope = np.polyfit(np.log(self.depths()[deep]), np.log(distances).mean(axis=0)[deep], 1)[0]
            scaled = self.depth * distances[:, -1]
        return {
            "slope_in_depth": Number(slope, "power of the depth L with which the distance from the equation falls"),
            "scaled_error": Number(scaled.mean(), f"depth L times the distance from the equation, L = {self.depth}"),
        }


@lru_cache(maxsize=64)
def _limit(experiment: NeuralODE, seed: int) -> DepthLimit:
    """The equation of one seed's weights and input; both witnesses measure distances from it."""
    weights = draw_depth_weights(experiment.d, experiment.hidden, seed)
    activation = Activation(formula=experiment.activation)
    return neural_ode(experiment._input(seed), *weights, activation, experiment.duration, experiment.times())
