"""Compiled programs kept on disk: the second process that asks the same of limen does not compile again.

Where: `JAX_COMPILATION_CACHE_DIR` if it is set, else `limen/jax` in the user's cache folder. The environment variable
`LIMEN_COMPILATION_CACHE=off` turns it off; a cache that was chosen in jax's own configuration is left as it is.
"""

import os
import sys

SWITCH = "LIMEN_COMPILATION_CACHE"
# XLA's older emitters of fused loops. The overlap equations compile in half the time and run a little faster (four
# saad-solla students 1.49 -> .81 s and 6.5 -> 5.9 ms, tanh 2.16 -> 1.20 s and 127 -> 118 ms); results differ by
# rounding. Only for programs that no other compiled program calls.
COMPILES_FAST = {"xla_cpu_use_fusion_emitters": False}
# Without LLVM's optimisations as well, for programs that run once for milliseconds. The covariance of four students'
# overlaps compiles in .68 instead of 1.53 s and runs in 12 instead of 9 ms.
RUNS_ONCE = COMPILES_FAST | {"xla_backend_optimization_level": 0}
# For loops of many small operations: XLA splits each operation of some thousand numbers over all threads, whatever
# `--xla_cpu_multi_thread_eigen` says, and the threads' meeting costs more than the operation.
ONE_THREAD = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}


def cache_folder() -> str:
    """Where compiled programs are kept."""
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if chosen:
        return chosen
    import platformdirs

    return str(platformdirs.user_cache_path("limen") / "jax")


def keep_compiled() -> None:
    """Makes jax keep what it compiles; called before a theory or a simulator is imported.

    Equinox must know before it is imported that a failed solve gives NaN: with its own exceptions inside, programs
    cannot be kept. limen reads the status of each solve itself. A process that has imported equinox already keeps its
    exceptions.
    """
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no"):
        return
    if "equinox" not in sys.modules:
        os.environ.setdefault("EQX_ON_ERROR", "nan")
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": cache_folder(),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0.0,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": 0,
    }
    jax = sys.modules.get("jax")
    if jax is None:
        # jax reads them when it is imported, which is not now: names and refusals need no jax.
        for name, value in wanted.items():
            os.environ.setdefault(name, str(value))
    elif jax.config.jax_compilation_cache_dir is None:
        for name, value in wanted.items():
            jax.config.update(name.lower(), value)
