"""What one visitor may ask of the machine."""

import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """Bounds that hold for every request, whatever an experiment's own fields allow.

    `queue`: computations waiting, beyond which a request is refused. `seconds` and `memory` (bytes above what an idle
    worker holds): for one computation, after which its process is ended; finished seeds stay in the store. `grace`:
    seconds without a listener after which a computation is given up. `cache`: bytes of finished answers in memory.
    """

    queue: int = 64
    seconds: float = 300.0
    memory: int = 4 * 2**30
    grace: float = 12.0
    simulators: int = field(default_factory=lambda: max(1, (os.cpu_count() or 1) // 2))
    cache: int = 64 * 2**20
    tickets: int = 2000
    body: int = 32 * 2**10
    # A table of the visitor's own, in bytes.
    upload: int = 8 * 2**20
    text: int = 400
    list: int = 32
    seeds: int = 1000
    # The size of a problem on the page, in units of its default; the command line has no such bound.
    size_factor: int = 16
    file: int = 64 * 2**20
