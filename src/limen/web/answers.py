"""What a worker's answers are made of: messages, JSON without what JSON has not, and the wish to stop."""

import json
import math
from collections.abc import Callable
from typing import Any

Send = Callable[[str, bytes], None]
Asked = Callable[[], bool]


class Cancelled(Exception):
    """Nobody wants the result any more."""


def as_json(value: Any) -> bytes:
    """A value as JSON; a number that is not finite becomes the text "inf", "-inf" or "nan"."""
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
