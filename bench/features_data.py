"""Latent features of faces, brain waves, texts and scenes, beside other ways to take matrices apart.

    python bench/features_data.py DATA [--sets eeg scenes faces ...] [--splits 5] [--out FILE]
    python bench/features_data.py --table FILE...

DATA is a folder with `faces/`, `eeg_eye/`, `20news/`, `reuters9/`, `tdt2/` and `scene15/`, read as the code below says;
none of it belongs to the project. Every set is split at random, 70 % to fit and 30 % to score, `--splits` times. For
each of the three priors and for truncated SVD, NMF, ICA and dictionary learning of as many components as `ibp` found
common features:

- mean log density of a held-out row (our models);
- squared error of a random half of each held-out row, predicted from the other half (`half`), and of rows rebuilt from
  themselves (`rebuilt`);
- accuracy and normalised mutual information of k-means on the codes of held-out rows, where rows have classes;
- on Reuters, precision among the 100 nearest rows of the fit, by category.

Texts are large: `--rows` takes so many rows of each set at random, `--halves` hides halves of so many new rows alone.
Results are kept as they come; `--table` prints means and standard deviations over the splits of one or more files.
"""

import argparse
import gzip
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, FastICA, MiniBatchDictionaryLearning, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score

from variegate import LatentFeatureModel

PRIORS = {
    "ibp": {"prior": "ibp"},
    "pitman-yor": {"prior": "pitman-yor"},
    "mutual-angular": {"prior": "mutual-angular"},
    "mutual-angular, kappa 1": {"prior": "mutual-angular", "kappa": 1.0},
    "mutual-angular, kappa D": {"prior": "mutual-angular"},
}


def load(folder, name):
    """Rows and classes (or None) of a set."""
    if name == "faces":
        z = np.load(folder / "faces/yaleb_32x32.npz")
        return z["X"].astype(float) / 255.0, z["y"]
    if name == "ar":
        z = np.load(folder / "faces/ar_pca300.npz")
        return z["X"].astype(float), z["y"]
    if name == "eeg":
        frame = pd.read_csv(folder / "eeg_eye/data.csv.gz").drop(index=898)  # a known gross outlier
        return frame.iloc[:, :14].to_numpy(float), None
    if name == "scenes":
        z = np.load(folder / "scene15/scene15.npz")
        return z["X"].astype(float), z["y"]
    kinds = {"20news": "20news", "reuters": "reuters9", "tdt2": "tdt2"}
    with gzip.open(folder / kinds[name] / "X.mtx.gz") as file:
        counts = scipy.io.mmread(file).tocsr()
    docs = pd.read_csv(folder / kinds[name] / "docs.csv.gz")
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts).tocsr(), docs.label.to_numpy()


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def clusters(codes, y, seed):
    """Accuracy of the best match of clusters to classes, and normalised mutual information."""
    k = len(np.unique(y))
    found = KMeans(k, n_init=20, random_state=seed).fit_predict(codes)
    table = pd.crosstab(found, y).to_numpy()
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(y), normalized_mutual_info_score(y, found, average_method="geometric")


def precision(codes, y, among, y_among, most=100):
    """Share of equal labels among the nearest rows, by class."""
    square = (codes**2).sum(1)[:, None] - 2 * codes @ among.T + (among**2).sum(1)
    nearest = np.argsort(square, axis=1, kind="stable")[:, :most]
    equal = (y_among[nearest] == y[:, None]).mean(1)
    return {str(c): float(equal[y == c].mean()) for c in np.unique(y)}


def halves(shape, seed):
    rng = np.random.default_rng(seed)
    hidden = np.zeros(shape, bool)
    for row in hidden:
        row[rng.permutation(shape[1])[: shape[1] // 2]] = True
    return hidden


def ours(settings, X, y, train, test, seed, more, nearest, most):
    begin = time.time()
    model = LatentFeatureModel(random_state=seed, progress=False, **settings, **more).fit(X[train])
    seconds = time.time() - begin
    held = X[test]
    found = {"seconds": seconds, "ln_density": float(model.score(held))}
    rows = dense(held)
    hidden = halves(rows[:most].shape, seed)
    completed = model.complete(np.where(hidden, np.nan, rows[:most]))
    found["half"] = float(((completed - rows[:most])[hidden] ** 2).mean())
    found["rebuilt"] = float(((model.reconstruct(held) - rows) ** 2).mean())
    found["features"] = float(model.n_features_draws_.mean())
    found["common"] = float(model.posterior_["n_common"].mean())
    found["converged"] = bool(model.summary().converged)
    if y is not None:
        codes = model.transform(held)
        found["accuracy"], found["information"] = clusters(codes, y[test], seed)
        if nearest:
            found["nearest"] = precision(codes, y[test], model.transform(X[train]), y[train])
    return found


def theirs(name, rank, X, y, train, test, seed, most):
    """The same of a decomposition of this rank. Half a row is predicted by ridge regression on the other half."""
    fit, held = X[train], dense(X[test])
    mean = np.zeros(X.shape[1]) if sp.issparse(X) or name == "NMF" else dense(fit).mean(0)
    if name == "NMF" and (fit.min() < 0):
        return None
    made = {
        "SVD": lambda: TruncatedSVD(rank, random_state=seed),
        "NMF": lambda: NMF(rank, init="nndsvda", max_iter=300, random_state=seed),
        "ICA": lambda: FastICA(rank, whiten="unit-variance", max_iter=500, random_state=seed),
        "dictionary": lambda: MiniBatchDictionaryLearning(rank, alpha=0.1, max_iter=20, random_state=seed),
    }[name]()
    begin = time.time()
    made.fit(fit if sp.issparse(fit) and name in ("SVD", "NMF") else dense(fit) - mean)
    seconds = time.time() - begin
    W = made.mixing_.T if name == "ICA" else made.components_
    hidden = halves(held[:most].shape, seed)
    centred = held - mean
    ridge = 1e-3 * np.trace(W @ W.T) / len(W) * np.eye(len(W))
    error = count = 0.0
    for row, out in zip(centred[:most], hidden, strict=True):
        seen = W[:, ~out]
        code = np.linalg.solve(seen @ seen.T + ridge, seen @ row[~out])
        error += ((row[out] - code @ W[:, out]) ** 2).sum()
        count += out.sum()
    codes = np.linalg.solve(W @ W.T + ridge, W @ centred.T).T
    found = {"seconds": seconds, "half": error / count, "rebuilt": float(((codes @ W - centred) ** 2).mean())}
    if y is not None:
        found["accuracy"], found["information"] = clusters(codes, y[test], seed)
    return found


def show(files):
    rows = pd.concat([pd.DataFrame(json.loads(Path(file).read_text())) for file in files])
    figures = ["ln_density", "half", "rebuilt", "accuracy", "information", "features", "common", "rank", "seconds"]
    for name, part in rows.groupby("set", sort=False):
        print(f"\n{name}\n\n| | splits | " + " | ".join(figures) + " |\n|" + "---|" * (len(figures) + 2))
        for method, lines in part.groupby("method", sort=False):
            cells = []
            for figure in figures:
                v = lines[figure].dropna() if figure in lines else []
                cells.append(f"{np.mean(v):.4g} ± {np.std(v):.2g}" if len(v) else "")
            print(f"| {method} | {len(lines)} | " + " | ".join(cells) + " |")
        for method, lines in part.groupby("method", sort=False):
            if "nearest" in lines and len(found := lines.nearest.dropna()):
                means = pd.DataFrame(list(found)).mean()
                print(
                    f"\nprecision among the nearest, {method}: " + " ".join(f"{c}: {v:.3f}" for c, v in means.items())
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--table", nargs="+")
    parser.add_argument("--sets", nargs="+", default=["eeg", "scenes", "faces", "ar", "reuters", "tdt2", "20news"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--thin", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--max-features", type=int, help="most features of a fit; texts grow a thousand without it")
    parser.add_argument("--restarts", type=int, help="short chains that a fit begins with")
    parser.add_argument("--rows", type=int, help="so many rows of a set, at random")
    parser.add_argument("--halves", type=int, help="halves of so many new rows are hidden, not of all")
    parser.add_argument("--priors", nargs="*", default=list(PRIORS))
    parser.add_argument("--others", nargs="*", default=["SVD", "NMF", "ICA", "dictionary"])
    parser.add_argument("--out", type=Path, default=Path("bench/out/features.json"))
    options = parser.parse_args()
    if options.table:
        show(options.table)
        return
    if options.data is None:
        parser.error("DATA or --table is needed")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    done = {(r["set"], r["split"], r["method"]) for r in results}

    def keep(name, split, method, found):
        results.append({"set": name, "split": split, "method": method, **found})
        options.out.write_text(json.dumps(results, indent=1))
        short = {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items() if k != "nearest"}
        print(name, split, method, short, flush=True)

    for name in options.sets:
        X, y = load(options.data, name)
        if options.rows and options.rows < X.shape[0]:
            some = np.sort(np.random.default_rng(0).permutation(X.shape[0])[: options.rows])
            X, y = X[some], None if y is None else y[some]
        for split in range(options.splits):
            order = np.random.default_rng(100 + split).permutation(X.shape[0])
            cut = int(0.7 * len(order))
            train, test = np.sort(order[:cut]), np.sort(order[cut:])
            more = {"n_chains": 1, "n_warmup": options.warmup, "n_draws": options.draws, "thin": options.thin}
            more |= {"max_features": options.max_features} if options.max_features else {}
            more |= {"restarts": options.restarts} if options.restarts else {}
            for method in options.priors:
                if (name, split, method) not in done:
                    settings = PRIORS[method] | ({"kappa": float(X.shape[1])} if method.endswith(" D") else {})
                    keep(
                        name,
                        split,
                        method,
                        ours(settings, X, y, train, test, split, more, name == "reuters", options.halves),
                    )
            common = [r["common"] for r in results if (r["set"], r["split"], r["method"]) == (name, split, "ibp")]
            rank = max(1, min(round(common[0]) if common else 10, X.shape[1] - 1))
            for method in options.others:
                if (name, split, method) not in done and (
                    found := theirs(method, rank, X, y, train, test, split, options.halves)
                ):
                    keep(name, split, method, {"rank": rank, **found})


if __name__ == "__main__":
    main()
