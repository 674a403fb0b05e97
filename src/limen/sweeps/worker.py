"""The inside of a worker process: tasks in, values out, one by one. Nothing heavy is imported before it is needed."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from types import ModuleType

BEGUN, RETURNED, RAISED, FINISHED = "begun", "returned", "raised", "finished"
# Workers share the cores; each computes on one thread. Equinox's own errors would stop jax from caching compiled
# solves, and limen reads the status itself.
ENVIRONMENT = {
    "EQX_ON_ERROR": "nan",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def worker_environment() -> dict[str, str]:
    """The variables of a worker's environment that limen sets."""
    import platformdirs

    flags = os.environ.get("XLA_FLAGS", "")
    flags = flags if ONE_THREAD in flags else f"{flags} {ONE_THREAD}".strip()
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(platformdirs.user_cache_path("limen") / "jax")
    return {**ENVIRONMENT, "XLA_FLAGS": flags, "JAX_COMPILATION_CACHE_DIR": cache}


@contextmanager
def spawning() -> Iterator[None]:
    """While processes are started: their environment, no Ctrl-C of theirs, and no second run of the user's script.

    A spawned process would import the script that started it, for functions defined there; workers need none, and a
    script without a guard would start a sweep of its own in each.
    """
    environment = worker_environment()
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


def serve(jobs: Connection) -> None:
    """Runs jobs until the driver closes the connection; each value is sent as soon as it is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a task prints must not come between the lines of the driver's own output.
    os.dup2(2, 1)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            number, prepare, function, tasks = jobs.recv()
            try:
                if prepare is not None:
                    prepare()
            except Exception as error:
                for position in range(len(tasks)):
                    jobs.send((RAISED, number, position, reason(error), 0.0))
                tasks = ()
            for position, task in enumerate(tasks):
                jobs.send((BEGUN, number, position))
                began = time.perf_counter()
                try:
                    message = (RETURNED, number, position, function(task), time.perf_counter() - began)
                except Exception as error:
                    message = (RAISED, number, position, reason(error), time.perf_counter() - began)
                _send(jobs, message)
            jobs.send((FINISHED, number, peak_memory()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _send(jobs: Connection, message: tuple) -> None:
    try:
        jobs.send(message)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        _, number, position, _, seconds = message
        jobs.send((RAISED, number, position, f"the value could not be sent: {reason(error)}", seconds))


def reason(error: BaseException) -> str:
    """An exception in one line, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def peak_memory() -> float:
    """The most memory this process has had, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


def _die_with_parent() -> None:
    """Ends the process when its driver is gone, however long the task it is at would still take."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
