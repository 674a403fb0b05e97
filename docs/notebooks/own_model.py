# %% [markdown]
# # My own model
#
# `limen.effective.derive` takes a loss, a sampler of data and the few numbers you care about (summary statistics), and derives
# what online SGD does to them in high dimension: the drift, the correction by noise, the diffusion.
#
# Here: find a hidden direction $v$ by online principal components, written from scratch.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import limen

d = 200
signal = 1.5


def sampler(key):
    """One sample: a spike along the first axis in Gaussian noise."""
    one, two = jax.random.split(key)
    return jax.random.normal(one, (d,)).at[0].add(jnp.sqrt(signal) * jax.random.normal(two))


def loss(x, sample):
    """Minus half the variance of the sample along x."""
    return -0.5 * jnp.dot(x, sample) ** 2 / jnp.dot(x, x)


def statistics(x):
    """The overlap with the spike, and the square of the rest."""
    return jnp.array([x[0], jnp.dot(x[1:], x[1:])])


# %%
step = 0.5 / d  # time is steps times this
dynamics = limen.effective.derive(loss, sampler, statistics, step=step, dimension=d)
print(
    "drift and corrector at overlap 0.3:",
    dynamics.population_drift([0.3, 0.91]).value,
    dynamics.corrector([0.3, 0.91]).value,
)

# %% [markdown]
# The limiting flow from an overlap of 0.3, and SGD itself beside it.

# %%
start = jnp.zeros(d).at[0].set(0.3).at[1].set(jnp.sqrt(1 - 0.3**2))
flow = dynamics.flow([0.3, 1 - 0.3**2], times=4.0)
run = limen.effective.run(loss, sampler, statistics, step=step, dimension=d, times=4.0, seeds=8, start=start)

# %%
figure, axis = plt.subplots(figsize=(5, 3))
axis.plot(flow.dataset.time, flow.dataset.statistics[:, 0], label="theory")
mean = run.dataset.statistics[..., 0].mean("seed")
axis.plot(run.dataset.time, mean, ".", label="SGD, mean of 8 seeds")
axis.set(xlabel="time", ylabel="overlap with the spike")
axis.legend()
figure

# %% [markdown]
# Next: [effective dynamics in full](../chapters/effective), or [from data to a learning curve](data_to_curve).
