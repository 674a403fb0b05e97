"""The loop inside a sweep's worker: tasks in, values out, one by one. Nothing heavy is imported before it is needed."""

import os
import time
from multiprocessing.connection import Connection

from limen.machine.collection import collect_seldom, leave_without_collecting
from limen.workers.inside import follow_parent, peak_memory, reason

BEGUN, RETURNED, RAISED, FINISHED = "begun", "returned", "raised", "finished"


def serve(jobs: Connection) -> None:
    """Runs jobs until the driver closes the connection; each value is sent as soon as it is there."""
    follow_parent()
    collect_seldom()
    # What a task prints must not come between the lines of the driver's own output.
    os.dup2(2, 1)
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
            leave_without_collecting()
            return


def _send(jobs: Connection, message: tuple) -> None:
    try:
        jobs.send(message)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        _, number, position, _, seconds = message
        jobs.send((RAISED, number, position, f"the value could not be sent: {reason(error)}", seconds))
