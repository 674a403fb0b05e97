"""How much work a run is, estimated before it begins: what would take many hours is refused with its numbers."""

from limen.problem.spec import InputError

# Samples * (d * width + STEP_OVERHEAD) of one run of full SGD: about three hours on one core.
MOST_SGD_WORK = 1e13
# What a step costs whatever d; with it the limit also keeps step counts within 32 bits.
STEP_OVERHEAD = 5_000
# Steps * seeds * (students + latent directions) of one call of the overlap chain: about an hour on one core.
MOST_CHAIN_WORK = 1e10


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
