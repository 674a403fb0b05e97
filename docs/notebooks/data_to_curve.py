# %% [markdown]
# # From data to a learning curve
#
# How will the error fall with more samples? The spectrum of the inputs and what the labels have to do with it decide. limen
# reads both off the data and predicts the whole curve; training on random subsets stands beside it.

# %%
import numpy as np
from sklearn.datasets import load_diabetes

import limen

X, y = load_diabetes(return_X_y=True)
y = (y - y.mean()) / y.std()
spectrum = limen.data.spectrum(X)
print(spectrum)

# %%
sizes = np.array([20, 40, 80, 160, 220])
curve = limen.data.learning_curve(X, y, model="ridge", sizes=sizes, ridge=0.01)
trained = limen.data.training_curve(X, y, model="ridge", sizes=sizes, ridge=0.01, seeds=40)

# %%
table = zip(sizes, curve.dataset.test_loss.values, trained.dataset.test_loss.mean("seed").values, strict=True)
for n, predicted, measured in table:
    print(f"n = {n:3d}: test loss predicted {predicted:.3f}, measured {measured:.3f}")

# %% [markdown]
# On the command line the same is `limen data FILE --target COLUMN`.
#
# Next: [your own data in full](../chapters/data), or [which optimiser](which_optimiser).
