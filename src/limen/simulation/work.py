"""How much work a run is, estimated before it begins: what would take many hours is refused with its numbers."""

import math

from limen.problem.spec import InputError

# Samples * (d * width + STEP_OVERHEAD) of one run of full SGD: about three hours on one core.
MOST_SGD_WORK = 1e13
# What a step costs whatever d; with it the limit also keeps step counts within 32 bits.
STEP_OVERHEAD = 5_000
# Steps * seeds * (students + latent directions) of one call of the overlap chain: about an hour on one core.
MOST_CHAIN_WORK = 1e10
# Arithmetic operations of one flow on a fixed sample: about an hour and a half on one core.
MOST_FLOW_WORK = 2e13


def check_chain_work(d: int, steps: int, seeds: int, units: int) -> None:
    """Refuses a run of the overlap chain above `MOST_CHAIN_WORK`; `units` counts students and latent directions."""
    work = float(steps) * seeds * units / MOST_CHAIN_WORK
    if work > 1.0:
        raise InputError(
            f"times must be shorter, seeds fewer or d smaller: {steps:.3g} steps at d = {d} for {seeds} seeds are "
            f"{work:.2g} times the work the overlap chain accepts."
        )


def check_sgd_work(d: int, steps: int, batch: int, width: int, latents: int) -> None:
    """Refuses a run of full SGD above `MOST_SGD_WORK`, and says whether the overlap chain could do it."""
    work = float(steps) * batch * (d * width + STEP_OVERHEAD) / MOST_SGD_WORK
    if work > 1.0:
        short = float(steps) * (width + latents) <= MOST_CHAIN_WORK
        remedy = ', or simulator "overlap-chain"' if short else ""
        raise InputError(
            f"times must be shorter or d smaller{remedy}: {steps:.3g} steps at d = {d} are {work:.2g} times the work "
            f"full SGD accepts."
        )


def flow_gradients(duration: float, rate: float) -> float:
    r"""About how many gradients a flow on the sphere takes when its largest rate is `rate`.

    Steps grow with time, $h\approx t/20$, and one of length $h$ takes $\sqrt{1.5h\lambda}$ gradients:
    $20\log(\lambda T)$ short steps, then $11\sqrt{\lambda T}$ gradients.
    """
    span = duration * rate
    return 100.0 + 60.0 * math.log1p(span) + 11.0 * math.sqrt(span)


def check_flow_work(d: int, duration: float, rate: float, operations: float) -> None:
    """Refuses a flow above `MOST_FLOW_WORK`; `operations` are those of one gradient."""
    evaluations = flow_gradients(duration, rate)
    work = evaluations * operations / MOST_FLOW_WORK
    if work > 1.0:
        raise InputError(
            f"times must be shorter or d smaller: about {evaluations:.2g} gradients of {operations:.2g} operations at "
            f"d = {d} are {work:.2g} times the work a flow accepts."
        )
