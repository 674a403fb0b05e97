# %% [markdown]
# # Which optimiser?
#
# Momentum, mini-batches and Adam on a fixed sample have exact limits, so they can be compared before anything is trained.

# %%
import matplotlib.pyplot as plt

import limen

algorithms = {
    "gradient descent": limen.GradientDescent(step=0.5),
    "heavy ball, β = 0.8": limen.GradientDescent(step=0.5, momentum=0.8),
    "batches of a tenth": limen.GradientDescent(step=0.5, batch_fraction=0.1),
    "Adam": limen.Adam(step=0.1, beta2=0.99),
}
problems = {
    name: limen.TwoLayer(
        target=limen.target("tanh(2*z) + 0.5*(z**2 - 1)", noise=0.1),
        network=limen.network(width=1, activation="tanh"),
        algorithm=algorithm,
        samples_per_dim=3.0,
    )
    for name, algorithm in algorithms.items()
}

# %%
figure, axis = plt.subplots(figsize=(5.5, 3.4))
for name, problem in problems.items():
    prediction = limen.predict(problem, times=30)
    line = axis.plot(prediction.dataset.time, prediction.dataset.test_loss, label=name)
    run = limen.simulate(problem, times=[0, 10, 20, 30], d=300, seeds=4).dataset
    axis.plot(run.time, run.test_loss.mean("seed"), "o", color=line[0].get_color())
axis.set(xlabel="steps", ylabel="test loss", title="lines: theory; points: training, d = 300, 4 seeds")
axis.legend()
figure

# %% [markdown]
# Rates are in limen's units; [units](../howto/units) has the table that converts those of PyTorch.
#
# Next: [first-order methods in full](../chapters/methods), or [read a verdict](../verdict).
