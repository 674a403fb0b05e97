"""Double precision inside public computing functions, without changing anything global."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def in_double(function: Function) -> Function:
    """Runs a function inside `jax.enable_x64(True)`; jax is imported at the first call, not before."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import jax

        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped  # pyright: ignore[reportReturnType]
