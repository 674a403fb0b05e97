"""`limen data FILE`: the learning curve of a table of one's own, predicted and trained."""

from pathlib import Path

import click


@click.command(name="data")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", default=None, help="column to be learnt, by name or number")
@click.option(
    "--model",
    type=click.Choice(["ridge", "kernel", "random-features", "ntk"]),
    default="ridge",
    show_default=True,
    help="what learns",
)
@click.option("--ridge", default="0.01", show_default=True, help="ridge λ, or several with commas")
@click.option("--times", default=None, help="early stopping: times of gradient flow, with commas")
@click.option("--sizes", default=None, help="numbers of samples, with commas; by default eight from N/20 to N/2")
@click.option("--features", default=None, help="random features, with --model random-features; one or several")
@click.option("--depth", type=int, default=3, show_default=True, help="weight layers, with --model ntk")
@click.option("--width", type=float, default=1.0, show_default=True, help="width of the kernel, with --model kernel")
@click.option("--seeds", type=click.IntRange(0), default=20, show_default=True, help="trainings; 0: only predict")
@click.option("--out", type=click.Path(path_type=Path), default=Path("limen-out"), help="folder for figure and data")
@click.option("--json", "as_json", is_flag=True, help="print exactly one JSON object")
def data(
    file: Path,
    target: str | None,
    model: str,
    ridge: str,
    times: str | None,
    sizes: str | None,
    features: str | None,
    depth: int,
    width: float,
    seeds: int,
    out: Path,
    as_json: bool,
) -> None:
    """Learning curve of a table (.csv, .npz, .parquet): predicted from its rows, and trained on parts of them.

    The file is read and nothing of it is kept.
    """
    from limen.cli.data_tables import learning_curves

    lists = {"sizes": sizes, "times": times, "ridge": ridge, "features": features}
    learning_curves(file, target, lists, {"model": model, "depth": depth, "width": width}, seeds, out, as_json)
