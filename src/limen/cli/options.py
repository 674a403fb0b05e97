"""Command-line options made from the fields of an experiment."""

import click

from limen.experiments.index import Entry, Parameter
from limen.web.text.one_line import plain

# The learning rate goes by the name it has in its chapter; the other is understood too.
LEARNING_RATE = {"step": "rate", "rate": "step"}


def options_of(entry: Entry) -> list[click.Parameter]:
    """One option per field, with its bounds, default and one line; `--size` also sets the size."""
    names = {parameter.name for parameter in entry.parameters}
    options: list[click.Parameter] = []
    for parameter in entry.parameters:
        flags = ["--" + parameter.name.replace("_", "-")]
        other = LEARNING_RATE.get(parameter.name, "")
        if other and other not in names:
            flags.append(f"--{other}")
        if parameter.name == entry.size:
            flags.append("--size")
        bounds = f" ({parameter.bounds})" if parameter.bounds else ""
        help_text = f"{plain(parameter.description)}{bounds}  [default: {parameter.default}]"
        options.append(click.Option([*flags, parameter.name], type=_type(parameter), default=None, help=help_text))
    return options


def _type(parameter: Parameter) -> click.ParamType:
    if parameter.kind == "choice":
        return click.Choice(parameter.choices)
    return {"integer": click.INT, "number": click.FLOAT, "switch": click.BOOL}.get(parameter.kind, click.STRING)
