"""Parameters that are lists of numbers: `1, 4, 10` on a command line, a list or tuple elsewhere."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from limen.problem.spec import InputError, nested_tuple


def number_list(value: Any) -> Any:
    """Numbers separated by commas or blanks as a tuple, one number as a list of one; anything else as it is, for
    pydantic to judge."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (value,)
    if not isinstance(value, str):
        return nested_tuple(value)
    try:
        return tuple(float(part) for part in value.replace(",", " ").split())
    except ValueError:
        raise InputError(f"a list of numbers must look like '1, 4, 10', got {value!r}.") from None


NumberList = Annotated[tuple[float, ...], BeforeValidator(number_list)]
