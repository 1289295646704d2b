"""Peers of the shared factors in `factors_nips.py`: each gives the word distributions of test articles, and a note.

Constants that smooth are chosen on training articles only.
"""

import numpy as np
from _factors_data import halves, perplexity


def tuned(train, seed, fit, finish, grid):
    """Which of `grid` completes an eighth of the training articles best, fitted to the others."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(train.shape[0])
    aside = max(1, len(order) // 8)
    observed, held = halves(train[order[:aside]], rng)
    raw = fit(train[order[aside:]], observed)
    return min(grid, key=lambda value: perplexity(finish(raw, observed, value), held))


def frequencies(train, added):
    total = np.asarray(train.sum(axis=0)).ravel() + added
    return total / total.sum()


def unigram(train, observed, seed):
    def finish(raw, observed, added):
        return np.tile(frequencies(raw, added), (observed.shape[0], 1))

    added = tuned(train, seed, lambda rows, _: rows, finish, (0.03, 0.1, 0.3, 1.0, 3.0, 10.0))
    return finish(train, observed, added), f"{added} added to each count"


def cache(train, observed, seed):
    """The words of the shown half and, with the weight of so many tokens, the frequencies in the training articles."""

    def finish(raw, observed, weight):
        p = observed.toarray() + weight * frequencies(raw, 0.1)
        return p / p.sum(axis=1, keepdims=True)

    weight = tuned(train, seed, lambda rows, _: rows, finish, (30, 100, 200, 300, 500, 1000, 3000))
    return finish(train, observed, weight), f"frequencies count {weight} tokens"


def gibbs(model, train, observed, sweeps, states, threads):
    """Mean of sum_k theta_k phi_k over states of the chain in its second half, theta by sampling the shown half."""

    def words(row):
        return np.repeat(row.indices, row.data).astype(str).tolist()

    for i in range(train.shape[0]):
        if train[i].nnz:
            model.add_doc(words(train[i]))
    model.train(sweeps // 2, workers=threads)
    p = np.zeros(observed.shape)
    for _ in range(states):
        model.train(max(1, sweeps // 2 // states), workers=threads)
        # HDP's own sampler of new documents hardly moves: perplexities of 3,000 to 4,400 on a part of the articles,
        # where the same topics read as LDA gave 2,400 to 2,500
        reader = model.convert_to_lda(topic_threshold=0.0)[0] if hasattr(model, "convert_to_lda") else model
        phi = np.full((reader.k, observed.shape[1]), reader.eta)  # words that no training article has
        columns = np.array(reader.used_vocabs, dtype=int)
        phi[:, columns] = [reader.get_topic_word_dist(k, normalize=False) for k in range(reader.k)]
        documents = [reader.make_doc(words(observed[i])) for i in range(observed.shape[0])]
        if any(d is None or not len(d.words) for d in documents):
            raise ValueError("a test article of which no word is shown that the training articles have")
        theta = np.array(reader.infer(documents, iterations=50, workers=threads)[0])
        p += theta @ (phi / phi.sum(axis=1, keepdims=True)) / states
    return p / p.sum(axis=1, keepdims=True), f"{reader.k} topics"


def lda(train, observed, seed, given, k, eta):
    import tomotopy

    model = tomotopy.LDAModel(k=k, eta=eta, seed=seed + 1)  # alpha is fitted as the chain runs, its default
    return gibbs(model, train, observed, given.sweeps, given.states, given.threads)


def chosen_lda(train, observed, seed, given):
    """LDA with those of the given K and eta that complete an eighth of the training articles best."""
    grid = [(k, eta) for k in given.topics for eta in given.eta]

    def finish(rows, observed, pair):
        return lda(rows, observed, seed, given, *pair)[0]

    k, eta = tuned(train, seed, lambda rows, _: rows, finish, grid)
    return lda(train, observed, seed, given, k, eta)[0], f"K = {k}, eta = {eta}"


def hdp(train, observed, seed, given, k, eta):
    """`k` is what it starts with."""
    import tomotopy

    model = tomotopy.HDPModel(initial_k=k, alpha=1.0, gamma=1.0, eta=eta, seed=seed + 1)
    return gibbs(model, train, observed, given.sweeps, given.states, given.threads)


def hpf(train, observed, seed, given, k):
    """Variational gamma-Poisson factorisation; the shown half enters by `predict_factors`, which holds the words."""
    import hpfrec
    import pandas as pd

    model = hpfrec.HPF(k=k, reindex=False, ncores=given.threads, random_seed=seed + 1, verbose=False)
    model.fit(train.tocoo())
    theta = np.zeros((observed.shape[0], k))
    for i in range(observed.shape[0]):
        shown = pd.DataFrame({"ItemId": observed[i].indices, "Count": observed[i].data.astype(float)})
        theta[i] = model.predict_factors(shown, maxiter=200, stop_thr=1e-5, random_seed=seed + 1)
    p = theta @ model.Beta.T.astype(float)
    return p / p.sum(axis=1, keepdims=True), f"{model.niter + 1} passes"


def nmf(train, observed, seed, k):
    """Factors of least Kullback-Leibler loss. They have zeros, so c times a background is added to the distribution."""
    from sklearn.decomposition import NMF

    def fit(rows, observed):
        model = NMF(
            k, init="random", solver="mu", beta_loss="kullback-leibler", max_iter=200, tol=1e-4, random_state=seed
        )
        model.fit(rows.astype(float))
        p = np.maximum(model.transform(observed.astype(float)) @ model.components_, 1e-300)
        return p / p.sum(axis=1, keepdims=True), frequencies(rows, 0.1)

    def finish(raw, observed, choice):
        p, frequent = raw
        kind, c = choice
        return (p + c * (frequent if kind == "unigram" else 1 / p.shape[1])) / (1 + c)

    grid = [(kind, c) for kind in ("uniform", "unigram") for c in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)]
    kind, c = tuned(train, seed, fit, finish, grid)
    return finish(fit(train, observed), observed, (kind, c)), f"{c} of the {kind} distribution added"
