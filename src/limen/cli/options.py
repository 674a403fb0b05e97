"""Command-line options made from an experiment's fields."""

import types
import typing
from typing import Any, Literal

import click
from pydantic.fields import FieldInfo

from limen.experiments.experiment import Experiment


def options_of(experiment: type[Experiment]) -> list[click.Parameter]:
    """One option per field, with its bounds, default and one line; `--size` also sets the size field."""
    options: list[click.Parameter] = []
    for name, field in experiment.model_fields.items():
        flag = "--" + name.replace("_", "-")
        names = [flag, "--size"] if name == experiment.size_field else [flag]
        options.append(
            click.Option(
                [*names, name],
                type=_type(field.annotation),
                default=None,
                help=f"{field.description or ''}{_bounds(field)}  [default: {field.default}]",
            )
        )
    return options


def _type(annotation: Any) -> click.ParamType:
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is Literal:
        return click.Choice([str(value) for value in typing.get_args(annotation)])
    return {int: click.INT, float: click.FLOAT, bool: click.BOOL}.get(annotation, click.STRING)


def _bounds(field: FieldInfo) -> str:
    symbols = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    parts = [
        f"{symbol} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, symbol in symbols.items()
        if isinstance(getattr(bound, name, None), (int, float))
    ]
    return f" ({', '.join(parts)})" if parts else ""
