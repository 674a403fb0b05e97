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
    for colour, d in ((1, 60), (2, 240)):
        marks.append(trained(limen.simulate(problem, 40, d=d, seeds=8), "test_loss", f"training, $d={d}$", colour))
    return Figure([Panel("step $t$", "test loss", marks)], title=r"One GeLU neuron on $z^2-1$, $\delta=14$")


def methods() -> Figure:
    """Adam's theory knows no finite size, and a hard direction is left at a time that depends on it."""
    problem = limen.TwoLayer(limen.target("z**2 - 1"), limen.network(1, "gelu"), limen.Adam(0.3), 14.0, loss="huber:1")
    marks: list[Mark] = [predicted(limen.predict(problem, 40), "test_loss", r"theory, $d=\infty$", 0)]
    for colour, d in ((1, 60), (2, 240)):
        marks.append(trained(limen.simulate(problem, 40, d=d, seeds=8), "test_loss", f"training, $d={d}$", colour))
    return Figure([Panel("step $t$", "test loss", marks)], title=r"Adam, one GeLU neuron on $z^2-1$, $\delta=14$")


def one_pass() -> Figure:
    """One start of the typical overlap is not the mean over random starts: its risk falls too early."""
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
    run = limen.simulate(problem, times, d=200, seeds=8)
    marks: list[Mark] = [
        predicted(limen.flow.solve(problem, times), "test_loss", "the Gaussian model", 0, dashed=True),
        predicted(limen.predict(problem, times), "test_loss", "the exact limit", 1),
        trained(run, "test_loss", "training, $d=200$", 1),
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
    """Steps of size 0.3/N are no differential equation while N is small: spiked tensors of order 3."""
    times = np.linspace(0.0, 2.0, 21)
    problem = limen.SpikedTensor(3, 2.0, 0.3, start=limen.OverlapStart(0.4))
    marks: list[Mark] = [predicted(limen.predict(problem, times), "overlap", r"theory, $N=\infty$", 0)]
    for colour, n in ((1, 20), (2, 50)):
        run = limen.simulate(problem, times, d=n, seeds=24)
        marks.append(trained(run, "overlap", f"training, $N={n}$", colour))
    title = "A spiked tensor of order 3, online SGD"
    return Figure([Panel("time $t$", "overlap with the spike", marks)], title=title)


def attention() -> Figure:
    """Tokens in few dimensions are not at right angles: they collapse earlier than the limit says."""
    times = np.linspace(0.0, 40.0, 41)
    theory = limen.predict(limen.SelfAttention(7.0, 32, 256), times)
    name = next(map(str, theory.dataset.data_vars))
    marks: list[Mark] = [predicted(theory, name, r"theory, $d=\infty$", 0)]
    for colour, d in ((1, 64), (2, 256)):
        run = limen.simulate(limen.SelfAttention(7.0, 32, d), times, seeds=4)
        marks.append(trained(run, name, f"tokens, $d={d}$", colour))
    return Figure([Panel("time $t$", name.replace("_", " "), marks)], title=r"32 tokens, $\beta=7$")


def data() -> Figure:
    """Rows of very different lengths have the spectrum of Gaussian inputs, and are not alike."""
    d, many = 80, 4000
    draw = np.random.default_rng(0)
    gaussian = draw.standard_normal((many, d))
    uneven = gaussian * np.where(draw.random(many) < 0.5, 0.4, np.sqrt(2.0 - 0.4**2))[:, None]
    marks: list[Mark] = []
    for colour, (rows, label) in enumerate(((gaussian, "Gaussian rows"), (uneven, "rows of two lengths"))):
        problem = limen.TwoLayer(
            limen.target("tanh(2*z)"),
            limen.network(1, "tanh"),
            limen.GradientDescent(0.5),
            3.0,
            inputs=limen.Inputs.from_data(rows),
        )
        if not marks:
            marks.append(predicted(limen.predict(problem, 24), "train_loss", "theory from the spectrum", 0))
        marks.append(trained(limen.simulate(problem, 24, seeds=16), "train_loss", f"training, {label}", colour))
    return Figure([Panel("step $t$", "train loss", marks)], title=r"One tanh neuron, 80 columns, $\delta=3$")


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
