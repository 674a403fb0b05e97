"""One picture per chapter of a place where its theory and training part: `python docs/failure_pictures.py`.

They are drawn once and kept in `pictures/fails`, since trainings take minutes; `pictures/fails/numbers.json` says how
far apart both are at the last point.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import limen
from limen.experiments.figure import Figure, Line, Mark, Panel, Points, mean_and_error
from limen.plot import save_figure
from limen.result import Result

FOLDER = Path(__file__).parent / "pictures" / "fails"
MOST_POINTS = 24


def trained(run: Result, variable: str, label: str, colour: int) -> Points:
    """Mean over seeds with its error, at no more times than the eye can tell."""
    values = run.dataset[variable]
    every = max(1, values.sizes["time"] // MOST_POINTS)
    values = values.isel(time=slice(None, None, every)).transpose("seed", "time", ...)
    mean, error = mean_and_error(values.values.reshape(values.sizes["seed"], values.sizes["time"], -1)[..., 0])
    return Points(values.time.values, mean, error, label, colour)


def predicted(theory: Result, variable: str, label: str, colour: int, dashed: bool = False) -> Line:
    """A variable of a prediction over time, its first component."""
    values = theory.dataset[variable]
    values = (values.mean("seed") if "seed" in values.dims else values).transpose("time", ...)
    return Line(values.time.values, values.values.reshape(values.sizes["time"], -1)[:, 0], label, colour, dashed)


def feature_learning() -> Figure:
    """The limit waits at the hard direction for ever; training of any size does not."""
    problem = limen.TwoLayer(
        limen.target("z**2 - 1"), limen.network(1, "gelu"), limen.GradientDescent(0.5), 14.0, loss="huber:1"
    )
    marks: list[Mark] = [predicted(limen.predict(problem, 40), "test_loss", r"theory, $d=\infty$", 0)]
    for colour, d in ((1, 100), (2, 400)):
        marks.append(trained(limen.simulate(problem, 40, d=d, seeds=12), "test_loss", f"training, $d={d}$", colour))
    return Figure([Panel("step $t$", "test loss", marks)], title=r"One GeLU neuron on $z^2-1$, $\delta=14$")


def methods() -> Figure:
    """Adam's theory knows no finite size, and a hard direction is left at a time that depends on it."""
    problem = limen.TwoLayer(limen.target("z**2 - 1"), limen.network(1, "gelu"), limen.Adam(0.3), 14.0, loss="huber:1")
    marks: list[Mark] = [predicted(limen.predict(problem, 40), "test_loss", r"theory, $d=\infty$", 0)]
    for colour, d in ((1, 100), (2, 400)):
        marks.append(trained(limen.simulate(problem, 40, d=d, seeds=12), "test_loss", f"training, $d={d}$", colour))
    return Figure([Panel("step $t$", "test loss", marks)], title=r"Adam, one GeLU neuron on $z^2-1$, $\delta=14$")


def one_pass() -> Figure:
    """A random start is no start at overlap 1/sqrt(d): the equation from there is late at every dimension."""
    d, times = 400, np.linspace(0.0, 3.0, 61)
    problem = limen.TwoLayer(limen.target("z**2"), limen.network(1, "square"), limen.SphericalSGD(0.05))
    typical = problem.model_copy(update={"start": limen.OverlapStart(d**-0.5)})
    seeds = 48
    run = limen.simulate(problem, times, d=d, seeds=seeds)
    marks: list[Mark] = [
        predicted(limen.predict(typical, times), "excess_risk", r"equation from overlap $d^{-1/2}$", 0, dashed=True),
        predicted(limen.predict(problem, times, d=d, seeds=seeds), "excess_risk", "mean over the runs' own starts", 1),
        trained(run, "excess_risk", f"training, $d={d}$", 1),
    ]
    return Figure([Panel("time $t$", "excess risk", marks)], title="Phase retrieval by one-pass SGD")


def flow() -> Figure:
    """The Gaussian model of the residuals is a model: while the network learns, its test loss is too high."""
    times = np.linspace(0.0, 4.0, 41)
    problem = limen.TwoLayer(limen.target("z + 0.257*z**2"), limen.network(1, "tanh"), limen.GradientFlow(), 3.7)
    run = limen.simulate(problem, times, d=400, seeds=16)
    marks: list[Mark] = [
        predicted(limen.flow.solve(problem, times), "test_loss", "the Gaussian model", 0, dashed=True),
        predicted(limen.predict(problem, times), "test_loss", "the exact limit", 1),
        trained(run, "test_loss", "training, $d=400$", 1),
    ]
    return Figure([Panel("time $t$", "test loss", marks)], title=r"One tanh neuron on $z+0.257z^2$, $\delta=3.7$")


def kernels() -> Figure:
    """Next to as many samples as dimensions small sizes are far from the limit."""
    ratios, last = np.array([0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0]), 1e4
    fine = np.geomspace(0.5, 2.0, 81)
    theory = [float(limen.predict(limen.Ridge(ratio, 0.2), [last]).dataset.excess_mse[-1]) for ratio in fine]
    marks: list[Mark] = [Line(fine, theory, "theory", 0)]
    for colour, d in ((1, 20), (2, 200)):
        found = [
            mean_and_error(limen.simulate(limen.Ridge(ratio, 0.2), [last], d=d, seeds=60).dataset.excess_mse.values)
            for ratio in ratios
        ]
        mean, error = (np.array([one[i].ravel()[0] for one in found]) for i in (0, 1))
        marks.append(Points(ratios, mean, error, f"training, $d={d}$", colour))
    panel = Panel(r"$\gamma=d/n$", "excess error", marks, x_scale="log", y_scale="log")
    return Figure([panel], title="Gradient flow of least squares at $t=10^4$, noise 0.2")


def effective() -> Figure:
    """The limit is for small steps and large dimensions: at N = 20 a run is another thing."""
    times = np.linspace(0.0, 10.0, 41)
    marks: list[Mark] = []
    for colour, n in enumerate((20, 100, 500)):
        problem = limen.BinaryMixture(0.7, 0.1, start=limen.OverlapStart(0.1))
        if not marks:
            name = next(str(key) for key in limen.predict(problem, times).dataset.data_vars)
            marks.append(predicted(limen.predict(problem, times), name, "theory", 0))
        run = limen.simulate(problem, times, d=n, seeds=64)
        marks.append(trained(run, name, f"training, $N={n}$", colour + 1))
    return Figure([Panel("time $t$", name.replace("_", " "), marks)], title="Binary mixture, online SGD")


def attention() -> Figure:
    """Tokens in few dimensions are not at right angles: they collapse earlier than the limit says."""
    times = np.linspace(0.0, 40.0, 41)
    marks: list[Mark] = []
    for colour, d in enumerate((128, 512)):
        problem = limen.SelfAttention(7.0, 32, d)
        theory = limen.predict(problem, times)
        name = "mean_cosine" if "mean_cosine" in theory.dataset else next(map(str, theory.dataset.data_vars))
        if not marks:
            marks.append(predicted(theory, name, r"theory, $d=\infty$", 0))
        marks.append(trained(limen.simulate(problem, times, seeds=8), name, f"tokens, $d={d}$", colour + 1))
    return Figure([Panel("time $t$", name.replace("_", " "), marks)], title=r"32 tokens, $\beta=7$")


def data() -> Figure:
    """Universality has an end: heavy tails in few dimensions are not Gaussian inputs."""
    problem = limen.TwoLayer(limen.target("z**2 - 1"), limen.network(2, "relu"), limen.GradientDescent(0.8), 4.0)
    marks: list[Mark] = [predicted(limen.predict(problem, 20), "test_loss", "theory, Gaussian inputs", 0)]
    for colour, law in ((0, "gaussian"), (1, "student-t"), (2, "rademacher")):
        drawn = problem.model_copy(update={"inputs": limen.Inputs(law)})
        run = limen.simulate(drawn, 20, d=60, seeds=24)
        marks.append(trained(run, "test_loss", f"training, {law}, $d=60$", colour))
    return Figure([Panel("step $t$", "test loss", marks)], title=r"Two ReLU neurons on $z^2-1$, $\delta=4$")


CHAPTERS: dict[str, Callable[[], Figure]] = {
    one.__name__: one for one in (feature_learning, methods, one_pass, flow, kernels, effective, attention, data)
}


def apart(figure: Figure) -> dict[str, Any]:
    """The last value of every curve and series, with its error."""
    found = {}
    for mark in figure.panels[0].marks:
        if isinstance(mark, Line | Points):
            error = [] if isinstance(mark, Line) or mark.error is None else [float(np.ravel(mark.error)[-1])]
            found[mark.label] = [float(np.asarray(mark.y)[-1]), *error]
    return found


def write(names: Iterable[str]) -> None:
    """Draws the pictures of these chapters and notes their numbers."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / "numbers.json"
    numbers = json.loads(kept.read_text()) if kept.is_file() else {}
    for name in names:
        began = time.process_time()
        figure = CHAPTERS[name]()
        save_figure(figure, FOLDER / f"{name}.png")
        numbers[name] = apart(figure)
        print(f"{name}: {time.process_time() - began:.0f} s, {numbers[name]}", flush=True)
        kept.write_text(json.dumps(numbers, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(sys.argv[1:] or CHAPTERS)
