"""Which problems has no theory an answer for, and why? `python benchmarks/refusals.py [ALGORITHM ...]` prints a table.

All combinations of eleven activations, nine targets, six losses and five widths, with every variant of the algorithms.
A problem is refused where every theory of its algorithm refuses it, as `limen.theories` says; the reason counted is
that of the theory tried last. Reasons are counted with their numbers and names left out.
"""

import re
import sys
from collections import Counter
from itertools import product

import limen
from limen.problem import Adam, GradientDescent, GradientFlow, InputError, OnePassSGD, SignDescent, SphericalSGD
from limen.problem.spec import Spec
from limen.theory.registry import THEORIES

ACTIVATIONS = (
    "relu", "gelu", "erf", "saad-solla", "tanh", "sigmoid", "softplus", "linear", "square", "hermite:3",
    "z*sigmoid(1.7*z)",
)  # fmt: skip
TARGETS = (
    "z", "z**2", "tanh(z)", "sign(z)", "relu(z)", "committee:2", "z1*z2", "parity:2", "z1+z2*z3",
)  # fmt: skip
LOSSES = ("square", "huber:1", "pseudo-huber:1", "logistic", "exponential", "squared-hinge")
WIDTHS = (1, 4, 16, 64, 1000)
FIXED, TRAINED = False, True
VARIANTS: dict[str, tuple[tuple[Spec, bool], ...]] = {
    "GradientDescent": (
        (GradientDescent(0.1), FIXED),
        (GradientDescent(0.1), TRAINED),
        (GradientDescent(0.1, weight_decay=0.1), FIXED),
        (GradientDescent(0.1, spherical=True), FIXED),
        (GradientDescent(0.1, momentum=0.5), FIXED),
        (GradientDescent(0.1, batch_fraction=0.5), FIXED),
    ),
    "GradientFlow": (
        (GradientFlow(), FIXED),
        (GradientFlow(), TRAINED),
        (GradientFlow(spherical=False), FIXED),
        (GradientFlow(spherical=False), TRAINED),
        (GradientFlow(weight_decay=0.1, spherical=False), FIXED),
        (GradientFlow(second_layer_decay=0.1), TRAINED),
    ),
    "OnePassSGD": ((OnePassSGD(0.1), FIXED), (OnePassSGD(0.1), TRAINED), (OnePassSGD(0.1, batch=4), FIXED)),
    "SphericalSGD": ((SphericalSGD(0.1), FIXED),),
    "Adam, SignDescent": ((Adam(0.1), FIXED), (SignDescent(0.1), FIXED)),
}


def reason_of(problem: Spec) -> str | None:
    """None where a theory answers, else the last reason, its numbers and names left out."""
    reasons = [method.refuses(problem) for method in THEORIES.for_problem(problem)]
    if not reasons or None in reasons:
        return None
    return re.sub(r"[0-9][0-9.,e+-]*", "#", str(reasons[-1]))


def main() -> None:
    """A row for each algorithm, and its reasons."""
    print("| algorithm | problems | not problems | refused | reasons |\n|---|---|---|---|---|")
    for name, variants in VARIANTS.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        counts, refused, invalid = Counter[str](), 0, 0
        networks = {
            (width, activation, trained): limen.network(width, activation, train_second_layer=trained)
            for width, activation, trained in product(WIDTHS, ACTIVATIONS, (FIXED, TRAINED))
        }
        targets = [limen.target(formula, noise=0.1) for formula in TARGETS]
        combinations = list(product(variants, WIDTHS, ACTIVATIONS, targets, LOSSES))
        for (algorithm, trained), width, activation, target, loss in combinations:
            one_pass = isinstance(algorithm, OnePassSGD | SphericalSGD)
            try:
                problem = limen.TwoLayer(
                    target, networks[width, activation, trained], algorithm, None if one_pass else 4.0, loss
                )
            except InputError:
                invalid += 1
                continue
            reason = reason_of(problem)
            if reason is not None:
                refused += 1
                counts[reason] += 1
        words = "; ".join(f"{count}: {reason}" for reason, count in counts.most_common()) or "none"
        print(f"| {name} | {len(combinations):,} | {invalid:,} | {refused:,} | {words} |", flush=True)


if __name__ == "__main__":
    main()
