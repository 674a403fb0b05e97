"""What a worker process is born into: its variables, and a start that repeats nothing of the user's script."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

# Workers share the cores: small matrices are multiplied faster than threads find each other. Only `NPROC` keeps XLA
# from splitting single operations over threads. Equinox's own errors would stop jax from caching compiled solves, and
# limen reads the status itself.
SHARED = {
    "EQX_ON_ERROR": "nan",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
# The page starts several at once.
_one_at_a_time = threading.Lock()
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def one_thread_environment() -> dict[str, str]:
    """The variables of a worker that computes on one thread, and where it keeps what jax compiles."""
    import platformdirs

    flags = os.environ.get("XLA_FLAGS", "")
    flags = flags if ONE_THREAD in flags else f"{flags} {ONE_THREAD}".strip()
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(platformdirs.user_cache_path("limen") / "jax")
    return {**SHARED, "XLA_FLAGS": flags, "JAX_COMPILATION_CACHE_DIR": cache}


@contextmanager
def spawning(environment: Mapping[str, str]) -> Iterator[None]:
    """While processes are started: their environment, no Ctrl-C of theirs, and no second run of the user's script.

    A spawned process would import the script that started it, for functions defined there; workers need none, and a
    script without a guard would start a sweep of its own in each.
    """
    with _one_at_a_time:
        before = {name: os.environ.get(name) for name in environment}
        main = sys.modules["__main__"]
        blockable = hasattr(signal, "pthread_sigmask")
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blockable else set()
        os.environ.update(environment)
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            if blockable:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
