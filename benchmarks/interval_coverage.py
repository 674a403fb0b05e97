"""How often the 99% interval of a learning curve holds: curves predicted from a part of a data set, against training on
the rows that part never saw. Prints the table of docs/chapters/data.md.

The source is a whole data set. N rows of it are shown to `learning_curve`; the truth is the mean test loss of trainings
on n rows of the source, tested on the rest of it. An interval holds if the truth lies in it.
"""

import sys

import numpy as np
from sklearn import datasets

from limen.data.curves import learning_curve, training_curve

CASES = (("diabetes", 110, 40), ("breast_cancer", 140, 50), ("digits", 220, 80))


def main(repeats: int) -> None:
    """One line per set, model and ridge."""
    print("| set | rows shown | samples | model | ridge | interval, of the mean | holds, of", repeats, "|")
    print("|---|---|---|---|---|---|---|")
    for name, shown, samples in CASES:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        for model, ridge in (("ridge", 0.1), ("ridge", 0.01), ("kernel", 0.01)):
            asked = {"model": model, "ridge": ridge, "sizes": [samples]}
            truth = float(training_curve(X, y, **asked, seeds=200).dataset.test_loss.mean())
            held, widths = 0, []
            for repeat in range(repeats):
                chosen = np.random.default_rng([repeat, shown]).permutation(len(y))[:shown]
                found = learning_curve(X[chosen], y[chosen], **asked).dataset
                low, high = float(found.test_loss_low[0]), float(found.test_loss_high[0])
                held += low <= truth <= high
                widths.append(0.5 * (high - low) / truth)
            print(
                f"| {name} | {shown} | {samples} | {model} | {ridge:g} | {np.mean(widths):.0%} | {held} |", flush=True
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
