"""The same spectrum and the same risk from entries of any law, and what the law of the entries does change."""

from typing import ClassVar

import numpy as np
import xarray as xr
from pydantic import Field

from limen.experiments.experiment import Experiment
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, Threshold, mean_and_error
from limen.experiments.number import Number, over_seeds
from limen.result import Findings, Result
from limen.simulation.spectra.random_matrices import draw_covariance
from limen.theory.kernel.ridge import ridge
from limen.theory.spectra import CovarianceLaw, MarchenkoPastur

# Laws with their excess kurtosis E z^4 - 3, in the order of it; the last has no fourth moment.
KURTOSIS = {"rademacher": -2.0, "uniform": -1.2, "gaussian": 0.0, "sparse": 2.0, "laplace": 3.0, "heavy": np.inf}
LAWS = tuple(KURTOSIS)
COMPARED, LIGHT, HEAVY = LAWS[:-1], LAWS[:3], LAWS[-1]
PLACES = ("median", "largest")
POINTS, RIDGES = 12, (0.05, 0.3, 2.0)


class Universality(Experiment):
    r"""$\hat\Sigma=\frac1nX^\top X$ with independent entries of six laws, all of mean 0 and variance 1, $p/n\to\gamma$.

    The limit of the spectrum is the Marchenko–Pastur law for every one of them, and with it all that is a function of
    the spectrum: here the risk of ridge regression with a target without preferred direction. A fourth moment more and
    the largest eigenvalue sits at the edge too. What the law does change are fluctuations:
    $n\,E(\hat\Sigma_{jj}-1)^2=2+\kappa_4$ exactly, $\kappa_4=E z^4-3$.

    What to see: five laws on one curve, left and middle. On the right fluctuations that follow $2+\kappa_4$, from none
    for entries $\pm1$ on. The sixth law, Student's t with 3 degrees of freedom, has no fourth moment: its bulk still
    follows, its largest eigenvalue is far outside, thrown there by single entries. It is drawn and not compared.
    Median and largest eigenvalues are compared for the three lightest laws; the others reach the same limit later.
    Sources: Marchenko & Pastur 1967; Bai & Yin 1993 for the fourth moment.
    """

    name: ClassVar[str] = "universality"
    source: ClassVar[str] = "Mathematics of deep learning"
    summary: ClassVar[str] = "Spectra and risks do not see the law of the entries; fluctuations do."
    citations: ClassVar[tuple[str, ...]] = ("marchenko1967", "dobriban2018", "johnstone2001")
    default_seeds: ClassVar[int] = 128
    compared: ClassVar[tuple[str, ...] | None] = (
        "distribution",
        "ridge_excess_mse",
        "eigenvalue_at",
        "diagonal_fluctuation",
    )
    quick: ClassVar[dict[str, float]] = {"d": 200}
    quick_seeds: ClassVar[int] = 192

    ratio: float = Field(0.5, ge=0.05, le=5.0, description="dimensions per sample γ = p/n")
    noise: float = Field(0.5, ge=0.0, le=100.0, description="variance σ² of the label noise of the regression")
    d: int = Field(300, ge=50, le=2_000, description="dimension p of the covariance")

    @property
    def samples(self) -> int:
        """Number of rows."""
        return round(self.d / self.ratio)

    @property
    def law(self) -> MarchenkoPastur:
        """The limit, at the ratio of whole numbers."""
        return MarchenkoPastur(self.d / self.samples)

    def grid(self) -> np.ndarray:
        """Points inside the bulk."""
        left, right = self.law.edges
        return np.linspace(left, right, POINTS + 2)[1:-1]

    def predict(self, seeds: tuple[int, ...] = ()) -> Findings:
        curve = CovarianceLaw(1.0, 1.0, self.d / self.samples).cdf(self.grid())
        risk = ridge(self.d / self.samples, RIDGES, self.noise).test
        places = [self._median(), self.law.largest_eigenvalue(self.samples).mean]
        dataset = xr.Dataset(
            {
                "distribution": (("law", "eigenvalue"), np.tile(curve, (len(COMPARED), 1))),
                "ridge_excess_mse": (("law", "ridge"), np.tile(risk, (len(COMPARED), 1))),
                "eigenvalue_at": (("light_law", "place"), np.tile(places, (len(LIGHT), 1))),
                "diagonal_fluctuation": ("law", [2.0 + KURTOSIS[name] for name in COMPARED]),
                "edge": self.law.edges[1],
            },
            coords={
                "eigenvalue": self.grid(),
                "ridge": list(RIDGES),
                "law": list(COMPARED),
                "light_law": list(LIGHT),
                "place": list(PLACES),
            },
        )
        return Findings(dataset, True, "exact as p grows; fluctuations of the diagonal at every p.")

    def _median(self) -> float:
        """The eigenvalue below which half of them lie."""
        fine = np.concatenate([[0.0], np.linspace(*self.law.edges, 4001)])
        below = CovarianceLaw(1.0, 1.0, self.d / self.samples).cdf(fine)
        return float(np.interp(0.5, below, fine)) if self.law.atom < 0.5 else 0.0

    def train(self, seed: int) -> Findings:
        found = {name: self._measure(name, seed) for name in LAWS}
        rows = [[found[name][i] for name in COMPARED] for i in (0, 1, 3)]
        places = [found[name][2] for name in LAWS]
        dataset = xr.Dataset(
            {
                "distribution": (("seed", "law", "eigenvalue"), [rows[0]]),
                "ridge_excess_mse": (("seed", "law", "ridge"), [rows[1]]),
                "eigenvalue_at": (("seed", "light_law", "place"), [places[: len(LIGHT)]]),
                "largest_eigenvalue": (("seed", "every_law"), [[place[1] for place in places]]),
                "diagonal_fluctuation": (("seed", "law"), [rows[2]]),
                "heavy_distribution": (("seed", "eigenvalue"), [found[HEAVY][0]]),
            },
            coords={
                "eigenvalue": self.grid(),
                "ridge": list(RIDGES),
                "law": list(COMPARED),
                "light_law": list(LIGHT),
                "place": list(PLACES),
                "every_law": list(LAWS),
                "seed": [seed],
            },
            attrs={"d": self.d},
        )
        return Findings(dataset, True, f"{self.samples} samples of each law.")

    def _measure(self, name: str, seed: int) -> tuple[np.ndarray, np.ndarray, list[float], float]:
        """Distribution on the grid, ridge risks, median and largest eigenvalue, fluctuation of the diagonal."""
        samples = self.samples
        inputs = draw_covariance(np.ones(self.d), samples, seed, name)
        covariance = inputs.T @ inputs / samples
        eigenvalues = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
        distribution = np.searchsorted(eigenvalues, self.grid(), "right") / self.d
        risks = []
        for penalty in RIDGES:
            # Averaged over directions of the target and over the label noise: a function of the eigenvalues alone.
            weights = 1.0 / (eigenvalues + penalty) ** 2
            bias, variance = penalty**2 * weights.mean(), self.noise / samples * (eigenvalues * weights).sum()
            risks.append(bias + variance)
        fluctuation = samples * np.mean((np.diag(covariance) - 1.0) ** 2)
        return (
            distribution,
            np.array(risks),
            [float(np.median(eigenvalues)), float(eigenvalues[-1])],
            float(fluctuation),
        )

    def picture(self, theory: Result, simulation: Result | None = None) -> Figure:
        fine = np.linspace(*self.law.edges, 302)[1:-1]
        bulk: list[Mark] = [Line(fine, CovarianceLaw(1.0, 1.0, self.d / self.samples).cdf(fine), "Marchenko–Pastur")]
        places = np.arange(len(LAWS))
        limits = self.law.largest_eigenvalue(self.samples)
        edges: list[Mark] = [Line(places[:-1], np.full(len(COMPARED), limits.mean), "Tracy–Widom mean", spots=True)]
        edges.append(Threshold(r"$(1+\sqrt{\gamma})^2$", y=self.law.edges[1]))
        known = theory.dataset.diagonal_fluctuation.values
        fluctuations: list[Mark] = [Line(known - 2.0, known, r"$2+\kappa_4$")]
        if simulation is not None:
            data = simulation.dataset
            for colour, name in enumerate(COMPARED, start=1):
                values = data.distribution.sel(law=name).values
                bulk.append(Points(self.grid(), *mean_and_error(values), f"{colour - 1}: {name}", colour))
            bulk.append(
                Points(self.grid(), *mean_and_error(data.heavy_distribution.values), f"{len(COMPARED)}: {HEAVY}", 6)
            )
            edges.append(Points(places, *mean_and_error(data.largest_eigenvalue.values), "mean", 1))
            fluctuations.append(Points(known - 2.0, *mean_and_error(data.diagonal_fluctuation.values), "", 1))
        return Figure(
            [
                Panel(r"eigenvalue $x$", "part of eigenvalues below $x$", bulk),
                Panel("number of the law", "largest eigenvalue", edges, x_range=(-0.4, len(LAWS) - 0.6), y_scale="log"),
                Panel(r"excess kurtosis $\kappa_4$", r"$n\,E(\hat\Sigma_{jj}-1)^2$", fluctuations),
            ],
            title=f"Entries of six laws, $\\gamma={self.ratio:g}$, $p={self.d}$",
            caption="Laws in the middle: numbers as on the left.",
        )

    def numbers(self, dataset: xr.Dataset) -> dict[str, Number]:
        mean = over_seeds(dataset)
        found = {
            "rademacher_ridge_excess_mse": Number(
                mean.ridge_excess_mse.sel(law="rademacher", ridge=0.3), "excess risk of ridge 0.3 with entries ±1"
            ),
            "laplace_ridge_excess_mse": Number(
                mean.ridge_excess_mse.sel(law="laplace", ridge=0.3), "excess risk of ridge 0.3 with Laplace entries"
            ),
            "laplace_fluctuation": Number(
                mean.diagonal_fluctuation.sel(law="laplace"), "n times the variance of a diagonal entry, Laplace"
            ),
        }
        if "edge" in dataset:
            found["right_edge"] = Number(dataset.edge, f"right edge of the spectrum as p → ∞, γ = {self.ratio:g}")
        return found
