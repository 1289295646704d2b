"""Articles, their two halves, scores and tables of `factors_nips.py`."""

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
import scipy.stats

NINE = ("AA", "LT", "NS", "AP", "VP", "CN", "IM", "SP", "CS")


class Articles:
    """Counts of the articles of some sections: test articles, split once into halves, and the pool to train on.

    Test articles are the same in every run: those that the data mark (`role` ends in `_test`), of other sections
    at most `n_test` that `n_train` training articles leave over. Columns are the words of at least `min_docs`
    articles of the pool, whichever of them a run trains on, so that every perplexity is over the same words.
    """

    def __init__(self, folder, sections, n_train, n_test, min_docs):
        counts = scipy.io.mmread(Path(folder) / "X.mtx.gz").tocsr().astype(np.int64)
        docs = pd.read_csv(Path(folder) / "docs.csv.gz")
        rng = np.random.default_rng(0)
        test, self.pool = [], {}
        for name in sections:
            if not (docs.section == name).any():
                raise SystemExit(f"no article of section {name} in {folder}")
            marked = (docs.section == name) & docs.role.str.endswith("_test")
            others = rng.permutation(np.flatnonzero((docs.section == name) & ~marked))
            spare = 0 if marked.any() else min(n_test, max(0, len(others) - n_train))
            test += [*np.flatnonzero(marked), *others[:spare]]
            self.pool[name] = others[spare:]
        pool = np.concatenate([*self.pool.values()])
        self.columns = np.flatnonzero(np.asarray((counts[pool] > 0).sum(axis=0)).ravel() >= min_docs)
        self.counts = counts[:, self.columns]
        self.section = docs.section.to_numpy().astype(str)
        self.test_sections = self.section[test]
        self.observed, self.held = halves(self.counts[test], rng)

    def train(self, name, n, run):
        """`n` articles of a section, fewer if it has fewer; those of a smaller `n` are among those of a larger one."""
        rng = np.random.default_rng([run, zlib.crc32(name.encode())])
        return self.counts[rng.permutation(self.pool[name])[:n]]

    def test_of(self, name):
        at = np.flatnonzero(self.test_sections == name)
        return self.observed[at], self.held[at]


def halves(counts, rng):
    """Every token is observed with probability 1/2; under Poisson rates the halves are independent given these."""
    observed = sp.csr_matrix(counts, dtype=np.int64, copy=True)
    held = observed.copy()
    observed.data = rng.binomial(observed.data, 0.5)
    held.data -= observed.data
    observed.eliminate_zeros()
    held.eliminate_zeros()
    return observed, held


def log_scores(p, held):
    """Log probability of the held half of every document under rows of `p`, which have to be distributions."""
    if p.shape != held.shape:
        raise ValueError(f"predictions are {p.shape}, documents {held.shape}")
    if not np.allclose(p.sum(axis=1), 1, atol=1e-6):
        raise ValueError("predictions do not sum to 1 over the words")
    entries = held.tocoo()
    with np.errstate(divide="ignore"):
        logs = entries.data * np.log(p[entries.row, entries.col])
    return np.bincount(entries.row, logs, minlength=held.shape[0])


def perplexity(p, held):
    return float(np.exp(-log_scores(p, held).sum() / held.sum()))


def generated(rows, run, auxiliary=100, n_test=400):
    """Rows and columns of 10 x 10 images as twelve factors: four of the target, four of the other source, four shared.

    Returns target rows, auxiliary rows, the halves of test rows of the target, and the true word distributions.
    """
    images = np.zeros((12, 10, 10))
    for k in range(6):
        images[k, 2 + k, :] = images[6 + k, :, 2 + k] = 1
    factors = images.reshape(12, 100)

    def draw(rng, allowed, n):
        allowed = factors[list(allowed)]
        shape = (n, len(allowed))
        rates = (rng.random(shape) < 0.5) * rng.gamma(1.0, 2.0, shape) @ allowed + 0.1
        return rng.poisson(rates), rates

    # one stream for each part: the test rows stay, and fewer target rows are the first of more
    streams = [np.random.default_rng([run, part]) for part in range(4)]
    target, other = (0, 1, 6, 7, 4, 5, 10, 11), (2, 3, 8, 9, 4, 5, 10, 11)
    train = np.vstack([draw(streams[0], target, 1)[0] for _ in range(rows)])
    aside = draw(streams[1], other, auxiliary)[0]
    test, rates = draw(streams[2], target, n_test)
    observed, held = halves(test, streams[3])
    return sp.csr_matrix(train), sp.csr_matrix(aside), observed, held, rates / rates.sum(axis=1, keepdims=True)


def spread(values):
    """Mean, standard error, and half the width of Student's 95 % interval; None where one value tells nothing."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return {"mean": float(values.mean()), "se": None, "half": None}
    se = values.std(ddof=1) / np.sqrt(len(values))
    half = se * scipy.stats.t.ppf(0.975, len(values) - 1)
    return {"mean": float(values.mean()), "se": float(se), "half": float(half)}


def cell(values, width="se", digits=1):
    s = spread(values)
    return f"{s['mean']:.{digits}f}" + ("" if s[width] is None else f" ± {s[width]:.{digits}f}")


def print_table(title, head, rows):
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(str(c) for c in row)} |")
    print(flush=True)
