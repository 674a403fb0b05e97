"""How many layers until tokens are one? Cosines layer by layer, against the exact map of a layer."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Histogram, Line, Mark, Panel, Points, Threshold, mean_and_error, thin
from limen.experiments.first_passage import first_passage
from limen.experiments.number import Number
from limen.problem import InputError
from limen.result import Findings, Result
from limen.simulation.attention.layers import layer_path
from limen.simulation.attention.observables import cosine_gaps
from limen.simulation.attention.starts import reduced_tokens
from limen.theory.attention import hitting_time, layer_map, layers_to_collapse

CLUSTERED = 1e-3
BETAS = 7
MOST_LAYERS = 3000
# Layers shown as histograms, in parts of the depth at which tokens have collapsed.
SHOWN = (0.0, 0.45, 0.6, 0.75)
BINS = np.linspace(-0.2, 1.0, 241)


class AttentionLayers(Experiment):
    r"""Layers $x_i\leftarrow N\big(x_i+\eta\sum_jA_{ij}x_j\big)$, $N(y)=y/|y|$, on independent uniform tokens.

    In high dimension random tokens are nearly orthogonal, and a layer keeps equal cosines equal: with
    $Z=1+(n-1)e^{-\beta(1-\gamma)}$, $q=\eta e^{-\beta(1-\gamma)}/Z$, $p=1+\eta/Z$ and $s=1+(n-1)\gamma$,
    $$1-\gamma'=\frac{(p-q)^2(1-\gamma)}{(p-q)^2+2(p-q)qs+nq^2s}.$$
    Iterated from 0 it says after how many layers all tokens have cosine at least 0.999. As $\eta\to0$ with
    $t=\eta\cdot$layer the path is the attention flow; near consensus a layer contracts angles by $1/(1+\eta)$ instead
    of $e^{-\eta}$, so that a stack of layers collapses later than the flow (dashed).

    What to see: one narrow peak of cosines that travels with the mark $\gamma_\beta$, and widens only while it rises.
    The theory is the limit of many dimensions; the default $d$ is large because size costs nothing here. A smaller
    one shows wide histograms and an earlier collapse, and the comparison then rightly disagrees. Source: Geshkovski,
    Letrouit, Polyanskiy & Rigollet 2023 (arXiv 2312.10794), sections 1 and 6.
    """

    name: ClassVar[str] = "attention-layers"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "The cosines of tokens move as one, layer by layer, and the number of layers is known."
    citations: ClassVar[tuple[str, ...]] = ("geshkovski2023",)
    default_seeds: ClassVar[int] = 32
    compared: ClassVar[tuple[str, ...] | None] = ("mean_cosine", "collapse_depth")
    quick: ClassVar[dict[str, float]] = {"tokens": 8, "beta": 3.0}
    quick_seeds: ClassVar[int] = 16

    tokens: int = Field(32, ge=4, le=512, description="number of tokens n")
    beta: float = Field(5.0, gt=0.0, le=50.0, description="inverse temperature β")
    eta: float = Field(0.5, gt=0.0, le=10.0, description="step η of a layer (1: the usual residual connection)")
    d: int = Field(32_768, ge=4, le=10_000_000, description="dimension of the tokens (costs nothing beyond n)")

    @model_validator(mode="after")
    def _check(self) -> "AttentionLayers":
        if self.tokens > self.d:
            raise InputError(
                f"tokens must be at most d = {self.d}, or no two are nearly orthogonal, got {self.tokens}."
            )
        if self.depth > MOST_LAYERS:
            raise InputError(
                f"beta must collapse tokens within {MOST_LAYERS} layers, got {self.depth} at {self.beta:g}."
            )
        return self

    @property
    def depth(self) -> int:
        """Layers after which the theory has collapsed."""
        return layers_to_collapse(self.tokens, self.beta, self.eta, CLUSTERED)

    def layers(self) -> int:
        """Layers that are run."""
        return int(np.ceil(1.3 * self.depth)) + 2

    def betas(self) -> np.ndarray:
        """Inverse temperatures at which the collapse is counted."""
        return np.linspace(0.0, self.beta, BETAS)

    def shown(self) -> np.ndarray:
        """Layers whose cosines are drawn."""
        return np.round(np.array(SHOWN) * self.depth).astype(int)

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        paths = [self._path(float(beta)) for beta in self.betas()]
        counts = [layers_to_collapse(self.tokens, float(beta), self.eta, CLUSTERED) for beta in self.betas()]
        dataset = xr.Dataset(
            {
                "mean_cosine": ("layer", paths[-1]),
                "collapse_depth": ("beta", [self._collapse(path) for path in paths]),
                "layers_to_collapse": ("beta", np.array(counts, dtype=float)),
                "flow_depth": ("beta", hitting_time(self.tokens, self.betas(), CLUSTERED) / self.eta),
            },
            coords={"layer": np.arange(self.layers() + 1), "beta": self.betas()},
        )
        status = "the exact map of a layer on orthogonal tokens."
        return Findings(dataset, True, status)

    def _path(self, beta: float) -> np.ndarray:
        cosines = [0.0]
        for _ in range(self.layers()):
            # Rounding ends the path at one, where nothing moves.
            last = cosines[-1]
            cosines.append(float(layer_map(last, self.tokens, beta, self.eta)) if last < 1.0 else 1.0)
        return np.array(cosines)

    def _collapse(self, cosines: np.ndarray) -> float:
        """Where the cosine passes 0.999, between layers."""
        return first_passage(np.arange(cosines.size), 1.0 - cosines, CLUSTERED)

    def train(self, seed: int) -> Findings:
        start = reduced_tokens(self.tokens, self.d, (seed,))[0]
        count, n = self.layers(), self.tokens
        means, path = [], start[None]
        for beta in self.betas():
            path = layer_path(start, float(beta), count, self.eta)
            # The mean over pairs i != j from the length of the sum of all tokens.
            squares = (path.sum(axis=1) ** 2).sum(axis=1)
            means.append((squares - n) / (n * (n - 1)))
        upper = np.triu_indices(n, 1)
        cosines = np.stack([1.0 - cosine_gaps(path[layer])[upper] for layer in self.shown()])
        dataset = xr.Dataset(
            {
                "mean_cosine": (("seed", "layer"), means[-1][None]),
                "collapse_depth": (("seed", "beta"), np.array([[self._collapse(row) for row in means]])),
                "cosines": (("seed", "shown_layer", "pair"), cosines[None]),
            },
            coords={
                "layer": np.arange(count + 1),
                "beta": self.betas(),
                "shown_layer": np.arange(len(SHOWN)),
                "seed": [seed],
            },
            attrs={"d": self.d},
        )
        ok = bool(np.isfinite(dataset.collapse_depth.values).all())
        status = f"{count} layers." if ok else f"some cosines did not pass 0.999 in {count} layers."
        return Findings(dataset, ok, status)

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        path = theory.dataset.mean_cosine.values
        panels = []
        for place, layer in enumerate(self.shown()):
            marks: list[Mark] = [Threshold(f"$\\gamma_\\beta={path[layer]:.3f}$", x=float(path[layer]))]
            if simulation is not None:
                values = np.clip(simulation.dataset.cosines.values[:, place].ravel(), BINS[0], BINS[-1])
                marks.insert(0, Histogram(BINS, np.histogram(values, BINS, density=True)[0]))
            panels.append(
                Panel(r"cosine $\langle x_i,x_j\rangle$", f"density after {layer} layers", marks, x_range=(-0.2, 1.02))
            )
        layers = theory.dataset.layer.values
        curve: list[Mark] = [Line(layers, path, r"theory $\gamma_\beta$")]
        counts: list[Mark] = [
            Line(self.betas(), theory.dataset.collapse_depth.values, "theory, layers", spots=True),
            Line(self.betas(), theory.dataset.flow_depth.values, r"flow, $t_\delta/\eta$", 1, spots=True),
        ]
        if simulation is not None:
            label = f"{len(simulation.seeds)} stacks"
            mean, error = mean_and_error(simulation.dataset.mean_cosine.values)
            at = thin(layers.size)
            curve.append(Points(layers[at], mean[at], error[at], label))
            counts.append(Points(self.betas(), *mean_and_error(simulation.dataset.collapse_depth.values), label=label))
        panels += [
            Panel("layer", "mean cosine of pairs", curve),
            Panel(r"inverse temperature $\beta$", "layers until cosines pass 0.999", counts),
        ]
        title = (
            f"Attention layer by layer, $n={self.tokens}$, $\\beta={self.beta:g}$, $\\eta={self.eta:g}$, $d={self.d}$"
        )
        return Figure(panels, title=title)

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        last, beta = dataset.isel(beta=-1), f"β = {self.beta:g}"
        if "layers_to_collapse" in dataset:
            layers = last.layers_to_collapse
        else:
            layers = np.median(np.ceil(last.collapse_depth.values))
        numbers = {
            "layers_to_collapse": Number(layers, f"layers until all cosines are above 0.999, {beta}", "layers"),
            "collapse_depth": Number(
                last.collapse_depth.mean(skipna=False), f"depth at which the mean cosine passes 0.999, {beta}", "layers"
            ),
        }
        if "flow_depth" in dataset:
            numbers["flow_depth"] = Number(
                last.flow_depth, f"depth at which the flow (small steps η) passes 0.999, {beta}", "layers"
            )
        return numbers
