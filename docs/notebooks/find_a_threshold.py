# %% [markdown]
# # How many samples does this target need?
#
# Gradient descent sees some directions of a target at once and others only with enough samples. The target below has
# one direction that a neuron does not see at first order: it is *hard*.

# %%
import numpy as np

import limen

target = limen.target("z**2", noise=0.05)
print("information exponent for a GELU neuron:", limen.link.information_exponent("z**2", "gelu"))
print("hard directions:", limen.link.hard_subspace(target).basis)

# %% [markdown]
# Two thresholds do not depend on the algorithm's details: below `information_theoretic` nothing can find the direction, below
# `algorithmic` no fast algorithm is known that does. Both count samples per dimension, $\delta=n/d$.

# %%
print("information-theoretic:", round(limen.thresholds.information_theoretic("z**2"), 3))
print("algorithmic:", round(limen.thresholds.algorithmic("z**2"), 3))

# %% [markdown]
# Gradient descent with a network needs more. At *your* dimension the answer is a probability: the part of the trainings
# that find the direction within 30 steps.

# %%
chances = {}
for ratio in (3.0, 6.0, 12.0):
    problem = limen.TwoLayer(
        target=target,
        network=limen.network(width=1, activation="gelu"),
        algorithm=limen.GradientDescent(step=1.2),
        samples_per_dim=ratio,
        loss="huber:1",
    )
    chances[ratio] = limen.thresholds.success_probability(problem, d=200, times=30, seeds=48, paths=2048)
    print(f"{ratio:4.0f} samples per dimension: {chances[ratio]:.0%} of the trainings succeed at d = 200")

# %% [markdown]
# The same, trained: the cosine of the neuron with the hidden direction passes one half, or does not.

# %%
runs = limen.simulate(problem, times=[30], d=200, seeds=24).dataset
cosine = np.abs(runs.overlap[:, -1, 0, 0]) / np.sqrt(runs.gram[:, -1, 0, 0])
print(f"trained at 12 samples per dimension: {float((cosine > 0.5).mean()):.0%} of 24 succeed")

# %% [markdown]
# Next: [feature learning in full](../chapters/feature_learning), or [a model of your own](own_model).
