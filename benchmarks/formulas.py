"""Random formulas, sensible and senseless: each is understood or refused in one sentence, within a second.

`python benchmarks/formulas.py [COUNT [SEED]]`. Every formula is posed as an activation and as a target; every accepted
activation is expanded in Hermite polynomials, which asks for its kinks and its integrals.
"""

import random
import sys
import time
from collections import Counter

from limen.problem import InputError, activation, target
from limen.problem.formula import FUNCTIONS

SLOWEST = 1.0
PLAIN = ("0", "1", "2", "-1", "0.5", "3.7", "10", "pi")
ODD = (
    "1e-9", "1e9", "1e-300", "1e300", "1e400", "9" * 330, "7/3", "nan", "inf",
    "0x10", "1_000", "1j",
)  # fmt: skip
SENSIBLE = ("z",)
NAMES = ("z1", "z2", "z3", "e", "x", "q")
FIXED = (
    "9" * 330, "z+0**-1", "1e-300**-16*z", "heaviside(sin(1000*z))", "sin(1e9*z)", "+".join(["z"] * 25), "z*nan", "z^2",
    "2z", "log(z)", "sqrt(z)", "1/z", "exp(z**2)", "exp(exp(z))", "z**-z", "().__class__", "z" * 500,
    "(" * 150, "", " ", "z**" + "9" * 330, "z**-" + "9" * 330,
)  # fmt: skip


def random_formula(chance: random.Random, depth: int = 4) -> str:
    """A formula from a grammar somewhat larger than what is allowed."""
    kind = chance.random()
    if depth == 0 or kind < 0.2:
        leaves = chance.choices((SENSIBLE, PLAIN, NAMES, ODD), (60, 30, 4, 6))[0]
        return chance.choice(leaves)

    def part() -> str:
        return random_formula(chance, depth - 1)

    if kind < 0.55:
        return f"({part()}{chance.choice(('+', '-', '*', '/', '*', '+'))}{part()})"
    if kind < 0.68:
        return f"({part()})**{chance.choice(('2', '3', '-1', '0.5', '-16', '17', part()))}"
    if kind < 0.93:
        name = chance.choice([*FUNCTIONS, *FUNCTIONS, *FUNCTIONS, "arctan", "eval"])
        return f"{name}({', '.join(part() for _ in range(FUNCTIONS.get(name, 1) + (chance.random() < 0.03)))})"
    if kind < 0.97:
        return f"({part()}{chance.choice(('<', '>', '<=', '==', ' and ', ' if z else '))}{part()})"
    return f"{part()}{chance.choice(('', ' ', '.real', '[0]', ';', '#', ')'))}"


def ask(text: str) -> tuple[str, float]:
    """What became of a formula (accepted, refused, or what was raised instead), and the processor time it took."""
    began, outcome = time.process_time(), "refused"
    for make in (activation, target):
        try:
            made = make(text)
            outcome = "accepted"
            if make is activation:
                from limen.gaussian import hermite_coefficients

                hermite_coefficients(made, 4)
        except InputError as error:
            if "\n" in str(error) or not str(error).endswith("."):
                return f"not a sentence: {error}", time.process_time() - began
        except Exception as error:
            return f"{type(error).__name__}: {error}", time.process_time() - began
    return outcome, time.process_time() - began


def main(count: int, seed: int) -> int:
    """Asks for `count` random formulas and the fixed ones; a line for every thousand, and for each that fails."""
    chance, outcomes = random.Random(seed), Counter()
    slowest, failures = (0.0, ""), 0
    texts = [*FIXED, *(random_formula(chance) for _ in range(count))]
    # The first expansion pays for imports.
    ask("z")
    for place, text in enumerate(texts, 1):
        outcome, seconds = ask(text)
        kind = outcome if outcome in ("accepted", "refused") else "failed"
        outcomes[kind] += 1
        slowest = max(slowest, (seconds, text))
        if kind == "failed" or seconds > SLOWEST:
            failures += 1
            print(f"{seconds:.2f} s  {text[:120]!r}: {outcome[:160]}", flush=True)
        if place % 1000 == 0 or place == len(texts):
            said = f"{place} formulas: {dict(outcomes)}; slowest {slowest[0]:.2f} s: {slowest[1][:80]!r}"
            print(said, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*words, *(20_000, 24)[len(words) :]))
