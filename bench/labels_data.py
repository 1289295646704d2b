"""Sets of labels on real data, beside what scikit-learn has for them.

    python bench/labels_data.py DATA [--sets emotions ...] [--unlabelled 0.0 0.8] [--methods logit ...] [--out FILE]
    python bench/labels_data.py --table FILE

DATA is a folder with `multilabel/SET/` (X, Y and the split of each set); none of it belongs to the project. Every set
has its official split. With `--unlabelled 0.8` the labels of that share of the rows of the fit, chosen at random, are
unknown: our fits use these rows, the others leave them out. Columns of scikit-learn's methods are standardised where
they are dense, ours are as the defaults say. Scores are defined as those of `MultiLabelMixtureClassifier.label_scores`.
Results are kept as they come, and what FILE has is not done again. `--methods` takes some of ours and theirs by their
names, or all by `ours` and `theirs`; `--table` shows FILE.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from variegate import MultiLabelMixtureClassifier

OURS = {
    "logit": {},
    "logit, power": {"feature_power": None},
    "logit, precision 1": {"weight_precision": 1.0},
    "logit, precision .05": {"weight_precision": 0.05},
    "and": {"coupling": "and"},
    "cut, logistic": {"coupling": "cut"},
    "cut, svm": {"coupling": "cut", "classifier": "svm"},
    "cut, product": {"coupling": "cut", "combine": "product"},
}
THEIRS = ("binary relevance, C=1", "binary relevance, C=.03", "chains", "random forest", "MLP")
SCORES = ("hamming_loss", "micro_f1", "macro_f1", "subset_accuracy", "ranking_loss", "average_precision", "log_loss")


def load(folder):
    """Rows, labels, and which rows are for the fit."""
    if (folder / "X.csv.gz").exists():
        X = pd.read_csv(folder / "X.csv.gz").to_numpy(float)
    else:
        X = scipy.io.mmread(folder / "X.mtx.gz").tocsr().astype(float)
    Y = pd.read_csv(folder / "Y.csv.gz").to_numpy(int)
    return X, Y, (pd.read_csv(folder / "part.csv.gz").part == "train").to_numpy()


class Chains:
    """The mean of five classifier chains in random orders."""

    def fit(self, X, Y):
        base = LogisticRegression(C=0.1, max_iter=500)
        self.chains = [ClassifierChain(base, order="random", random_state=s).fit(X, Y) for s in range(5)]
        return self

    def predict_proba(self, X):
        return np.mean([chain.predict_proba(X) for chain in self.chains], axis=0)


def theirs(name, threads):
    return {
        "binary relevance, C=1": lambda: OneVsRestClassifier(LogisticRegression(C=1.0, max_iter=500)),
        "binary relevance, C=.03": lambda: OneVsRestClassifier(LogisticRegression(C=0.03, max_iter=500)),
        "chains": Chains,
        "random forest": lambda: RandomForestClassifier(200, random_state=0, n_jobs=threads),
        "MLP": lambda: MLPClassifier((100,), early_stopping=True, max_iter=200, random_state=0),
    }[name]()


def scored(P, Y):
    """The scores of probabilities."""
    entry = np.where(Y == 1, P, 1 - P).clip(1e-15)
    chosen = P >= 0.5
    both = (chosen & (Y == 1)).sum(0)
    sizes = chosen.sum(0) + (Y == 1).sum(0)
    ranking, precision = [], []
    for p, y in zip(P, Y, strict=True):
        on, off = p[y == 1], p[y == 0]
        if len(on) == 0 or len(off) == 0:
            ranking.append(0.0)
            precision.append(1.0)
            continue
        ranking.append((on[:, None] < off).mean() + 0.5 * (on[:, None] == off).mean())
        precision.append(np.mean([(on >= v).sum() / (p >= v).sum() for v in on]))
    return {
        "hamming_loss": float((chosen != Y).mean()),
        "micro_f1": float(2 * both.sum() / max(sizes.sum(), 1)),
        "macro_f1": float(np.where(sizes > 0, 2 * both / np.maximum(sizes, 1), 0).mean()),
        "subset_accuracy": float((chosen == Y).all(1).mean()),
        "ranking_loss": float(np.mean(ranking)),
        "average_precision": float(np.mean(precision)),
        "log_loss": float(-np.log(entry).mean()),
    }


def show(results):
    """A table of each set and share."""
    for key in dict.fromkeys((r["set"], r["unlabelled"]) for r in results):
        print(*key)
        for r in (r for r in results if (r["set"], r["unlabelled"]) == key):
            numbers = " ".join(f"{r[s]:.4f}" if s == "hamming_loss" else f"{r[s]:.3f}" for s in SCORES)
            spent = f"{r['seconds']:8.1f} s {r.get('cpu_seconds', 0):8.1f} s"
            print(f"  {r['method']:24} {numbers} {spent} {r.get('components', '')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+", default=["emotions", "yeast", "scene", "medical", "enron", "bibtex"])
    parser.add_argument("--unlabelled", nargs="+", type=float, default=[0.0, 0.8])
    parser.add_argument("--methods", nargs="+", default=["ours", "theirs"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench/out/labels.json"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        show(json.loads(options.table.read_text()))
        return
    if options.data is None:
        parser.error("DATA is missing")
    wanted = [m for asked in options.methods for m in {"ours": OURS, "theirs": THEIRS}.get(asked, [asked])]
    if unknown := set(wanted) - {*OURS, *THEIRS}:
        parser.error(f"no methods {sorted(unknown)}; there are {[*OURS, *THEIRS]}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    done = {(r["set"], r["unlabelled"], r["method"]) for r in results}

    def keep(key, found):
        results.append(dict(zip(("set", "unlabelled", "method"), key, strict=True)) | found)
        options.out.write_text(json.dumps(results, indent=1))
        print(*key, {k: round(v, 4) for k, v in found.items()}, flush=True)

    for name in options.sets:
        X, Y, train = load(options.data / "multilabel" / name)
        for share in options.unlabelled:
            known = np.random.default_rng(1).random(train.sum()) >= share
            given = np.where(known[:, None], Y[train], -1)
            for method in (m for m in wanted if m in OURS):
                if (name, share, method) in done:
                    continue
                begin, busy = time.time(), time.process_time()
                settings = {"random_state": 0, "progress": False, "threads": options.threads} | OURS[method]
                model = MultiLabelMixtureClassifier(**settings).fit(X[train], given)
                spent = {"seconds": time.time() - begin, "cpu_seconds": time.process_time() - busy}
                found = model.label_scores(X[~train], Y[~train])
                found = {s: found[s] for s in SCORES} | spent | {"components": len(model.weights_)}
                keep((name, share, method), found)
            for method in (m for m in wanted if m in THEIRS):
                if (name, share, method) in done:
                    continue
                fit, test = X[train][known], X[~train]
                if not sp.issparse(X):
                    scaler = StandardScaler().fit(fit)
                    fit, test = scaler.transform(fit), scaler.transform(test)
                labels = Y[train][known]
                both = (labels.min(0) == 0) & (labels.max(0) == 1)  # scikit-learn needs rows of both kinds
                begin, busy = time.time(), time.process_time()
                model = theirs(method, options.threads).fit(fit, labels[:, both])
                spent = {"seconds": time.time() - begin, "cpu_seconds": time.process_time() - busy}
                P = np.tile(labels.mean(0), (test.shape[0], 1))
                if method == "random forest":
                    P[:, both] = np.stack([p[:, 1] for p in model.predict_proba(test)], axis=1)
                else:
                    P[:, both] = model.predict_proba(test)
                keep((name, share, method), scored(P, Y[~train]) | spent)


if __name__ == "__main__":
    main()
