# %% [markdown]
# # My first prediction
#
# From a problem to a verdict in four steps. A *problem* says what is learnt, by which network, with which algorithm. Nothing
# is computed yet, but everything is checked.

# %%
import limen

problem = limen.TwoLayer(
    target=limen.target("tanh(2*z1) + 0.3*z2", noise=0.05),  # two hidden directions of the input
    network=limen.network(width=2, activation="tanh"),
    algorithm=limen.GradientDescent(step=0.8),
    samples_per_dim=4.0,  # n = 4 d samples
)
problem

# %% [markdown]
# *Which theories apply?* Each either applies or says why not.

# %%
for name, reason in limen.theories(problem).items():
    if reason == "applies":
        print(name)

# %% [markdown]
# *Predict.* The theory is for $d\to\infty$ at fixed $n/d$: nothing is trained, nothing is fitted. `test_loss` and `train_loss`
# part because the network also learns its sample by heart.

# %%
prediction = limen.predict(problem, times=25)
prediction

# %%
prediction.plot(variables=("train_loss", "test_loss"))

# %% [markdown]
# *Train*, for real, in 400 dimensions, with 64 different samples and starts.

# %%
run = limen.simulate(problem, times=25, d=400, seeds=64)
prediction.plot(run, variables=("train_loss", "test_loss"))

# %% [markdown]
# *Compare.* The verdict holds the mean over seeds against a simultaneous 99% band; it can also say that it cannot tell,
# and then how many seeds would decide.

# %%
print(limen.compare(prediction, run))

# %% [markdown]
# Next: [how many samples does a target need?](find_a_threshold), or [what the verdict means](../verdict).
