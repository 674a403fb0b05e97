"""From what a user says to an executor."""

from contextlib import AbstractContextManager, nullcontext

from limen.problem.spec import InputError
from limen.sweeps.pool import LocalPool
from limen.sweeps.protocol import Executor


def make_executor(
    wanted: Executor | int | str | None, time_limit: float | None, workers: int | None = None
) -> AbstractContextManager[Executor]:
    """A number of local workers, `local`, `dask` for a local cluster, the address of a Dask scheduler, or an executor.

    An executor that is given brings its own time limit, and is left open.
    """
    if wanted is None or wanted == "local":
        return LocalPool(workers, time_limit)
    if isinstance(wanted, int):
        return LocalPool(wanted, time_limit)
    if isinstance(wanted, str):
        from limen.sweeps.dask_executor import DaskExecutor

        if wanted == "dask":
            return DaskExecutor.local(workers, time_limit)
        if "://" in wanted:
            return DaskExecutor(wanted, time_limit)
        raise InputError(
            f"executor must be local, dask or the address of a scheduler (tcp://host:port), got {wanted!r}."
        )
    if time_limit is not None:
        raise InputError("time_limit is given to the executor itself when an executor is given.")
    return nullcontext(wanted)
