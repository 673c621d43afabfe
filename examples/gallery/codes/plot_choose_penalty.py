"""
Which penalty?  Ask a grid search
=================================

The objective cannot choose its own penalty: it is smallest if the penalty is zero.  The
score of ``SpikingSparseCoder`` can choose a penalty: the score hides some pixels, codes
the others, and measures how well the code predicts the hidden pixels.  So
``GridSearchCV`` needs only noisy data to find ``alpha``.  Here the digits without noise
are known, which checks the choice.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import Normalizer

from solvers import SpikingSparseCoder

digits = Normalizer().fit_transform(load_digits().data)
atoms, clean = digits[:300], digits[300:400]
noisy = clean + 0.2 * np.random.default_rng(0).standard_normal(clean.shape)

coder = SpikingSparseCoder(atoms, alpha=0.1, positive=True)
alphas = np.geomspace(0.02, 0.6, 12)
search = GridSearchCV(coder, {"alpha": alphas}, cv=2).fit(noisy)
chosen = search.best_params_["alpha"]

# %%
# How well do these codes approximate the digits without noise?  The grid search
# did not see digits without noise.

missed = []
for alpha in alphas:
    approximation = coder.set_params(alpha=alpha).fit_transform(noisy) @ atoms
    missed.append(np.square(approximation - clean).sum() / np.square(clean).sum())

figure, (score, truth) = plt.subplots(
    2, 1, sharex=True, figsize=(6.4, 5.0), layout="constrained"
)
score.semilogx(alphas, search.cv_results_["mean_test_score"], "o-", color="tab:blue")
score.axvline(chosen, color="tab:blue", linestyle=":", label=f"largest: {chosen:.2g}")
score.set(title="Score: energy of hidden noisy pixels predicted", ylabel="share")
truth.semilogx(alphas, missed, "s-", color="tab:orange")
best = alphas[np.argmin(missed)]
truth.axvline(best, color="tab:orange", linestyle=":", label=f"smallest: {best:.2g}")
title = "Truth: energy of the digits without noise that the code misses"
truth.set(title=title, xlabel="penalty alpha", ylabel="share")
truth.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
truth.minorticks_off()
figure.suptitle("Choosing the penalty of a code of noisy digits")
for ax in (score, truth):
    ax.grid(alpha=0.3)
    ax.legend()
    ax.title.set_fontsize("medium")
plt.show()

# %%
# Both panels have nearly the same best penalty, though the score uses only noisy
# pixels.  Most of the energy of hidden pixels is noise, so the score is small.  The
# coder also works in a pipeline with other steps of scikit-learn: :doc:`/scikit_learn`.
