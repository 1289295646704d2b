"""Cluster trees on real data, plain and with margins, beside what SciPy and scikit-learn have for them.

    python bench/tree_data.py DATA [--sets animals animals-raw fashion-0 ...] [--arms plain stated calibrated peers]
        [--separations 0.01 0.1 ...] [--margins 0.1 1] [--seeds 10] [--sweeps 8000] [--out FILE]
    python bench/tree_data.py --table [--out FILE]

DATA is a folder with `animals/` and `fashion/`; none of it belongs to the project. Sets: `animals` (33 rows, seven
principal components of centred, unscaled answers), `animals-raw` (the 102 answers themselves, `likelihood` bernoulli)
and `fashion-0` to `fashion-19` (samples of 100 images, ten a class, ten principal components of each). Settings are
those of the paper (unit covariances, features of the margin as they are); one chain a seed, the first half of its
sweeps dropped.

Scores are those of `ClusterTree.tree_scores`: the mean over draws, and of the tree of least expected variation of
information; `best` is the draw that the paper would choose. The trees of Ward's and of average linkage are cut at the
mean numbers of nodes of the plain arm (which must be there) and at the number of classes; HDBSCAN (rows that it leaves
out count as clusters of their own) and a Dirichlet process mixture of Gaussians are flat. Every result is kept as soon
as it is there: what was done is not done again. The table compares each arm with the plain one by pairs of equal set
and seed: the mean of the log ratios with its 95 % interval (Student), as a percentage.
"""

import argparse
import json
import os
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.stats import t as student
from sklearn.cluster import HDBSCAN
from sklearn.mixture import BayesianGaussianMixture

# the table of the paper
CLASSES = {
    "land mammals": "Elephant Rhino Horse Cow Camel Giraffe Gorilla Chimp Deer",
    "mouse": "Mouse Squirrel",
    "predators": "Tiger Cat Dog Wolf Lion",
    "water animals": "Whale Seal Dolphin Penguin",
    "birds": "Robin Eagle Chicken Finch Ostrich",
    "fish": "Salmon Trout",
    "insects": "Bee Butterfly Ant Cockroach",
    "amphibians": "Iguana Alligator",
}
SETTINGS = {
    "animals": {"depth": 3, "alpha": 0.35, "gamma": 1.0, "gamma0": 0.85, "likelihood": "gaussian-known"},
    "animals-raw": {"depth": 3, "alpha": 0.35, "gamma": 1.0, "gamma0": 0.85, "likelihood": "bernoulli"},
    "fashion": {"depth": 4, "alpha": 0.2, "gamma": 1.5, "gamma0": 0.85, "likelihood": "gaussian-known"},
}
# relative changes that the paper reads from its figures, in per cent
CLAIMS = {"animals": "AID -20 to -25, AOD +10", "fashion": "AID -27 to -28, AOD +7.5"}


def principal(X, count):
    """Coordinates of centred, unscaled rows along their first principal components."""
    centred = X - X.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return left[:, :count] * sizes[:count]


def load(folder, name):
    """Rows and classes of a set."""
    if name.startswith("animals"):
        frame = pd.read_csv(folder / "animals/animals.csv.gz", index_col=0)
        of = {animal: kind for kind, animals in CLASSES.items() for animal in animals.split()}
        X = frame.to_numpy(float)
        return (X if name.endswith("raw") else principal(X, 7)), np.array([of[animal] for animal in frame.index])
    runs = np.load(folder / "fashion/fashion_runs100.npz")
    number = int(name.removeprefix("fashion-"))
    return principal(runs["pixels"][number].astype(float) / 255.0, 10), runs["y"][number].astype(str)


def scored(labels, X, y):
    """The scores of `tree_scores` for labels of each level, by other code than ours."""
    labels = np.asarray(labels)
    found, inner, outer, chance = {}, [], [], []
    trace = X.var(0, ddof=1).sum()
    codes = {c: i for i, c in enumerate(np.unique(y))}
    own = np.array([codes[c] for c in y])
    node = np.zeros(len(X), int)
    meets, sizes = [np.zeros_like(node)], np.bincount(own)
    for level in range(labels.shape[1]):
        parent = node
        _, node = np.unique(np.column_stack([parent, labels[:, level]]), axis=0, return_inverse=True)
        node = node.ravel()
        meets.append(node)
        count = np.bincount(node)
        found[f"nodes_{level + 1}"] = float(len(count))
        means = np.stack([X[node == z].mean(0) for z in range(len(count))])
        inner += [2 * X[node == z].var(0, ddof=1).sum() for z in range(len(count)) if count[z] > 1]
        above = np.array([parent[node == z][0] for z in range(len(count))])
        for a in range(len(count)):
            for b in range(a):
                if above[a] == above[b]:
                    outer.append(((means[a] - means[b]) ** 2).sum())
                    chance.append(trace * (1 / count[a] + 1 / count[b]))
        both = np.zeros((len(sizes), len(count)))
        np.add.at(both, (own, node), 1)
        found[f"f_{level + 1}"] = float((sizes * (2 * both / (sizes[:, None] + count)).max(1)).sum() / len(X))
    found["aid"] = float(np.mean(inner)) if inner else None
    found["aid_ratio"] = float(found["aid"] / (2 * trace)) if inner else None
    found["aod"] = float(np.mean(outer)) if outer else None
    found["aod_ratio"] = float(np.sum(outer) / np.sum(chance)) if outer else None
    pure = []
    for i in range(len(X)):
        for j in range(i):
            if own[i] == own[j]:
                smallest = next(m for m in reversed(meets) if m[i] == m[j])
                pure.append((own[smallest == smallest[i]] == own[i]).mean())
    found["purity"] = float(np.mean(pure))
    return found


def kind(name):
    return "fashion" if name.startswith("fashion") else name


def arm_name(target, separation=None, margin=None):
    return target if separation is None else f"{target} C={separation:g} eps={margin:g}"


def ours(name, X, y, seed, sweeps, margin):
    """One chain, and how good its trees are."""
    from variegate import ClusterTree

    thin = max(1, sweeps // 2000)
    length = {"n_chains": 1, "n_warmup": sweeps // 2, "n_draws": (sweeps - sweeps // 2) // thin, "thin": thin}
    begin = time.time()
    model = ClusterTree(random_state=seed, threads=1, progress=False, **SETTINGS[kind(name)], **length, **margin).fit(X)
    seconds = time.time() - begin
    scores = model.tree_scores(X, y)
    finite = {k: (None if v != v else float(v)) for k, v in ((k, s["tree"]) for k, s in scores.items())}
    check = scored(model.labels_, X, y)
    for key, value in check.items():
        same = finite[key] is None if value is None else abs(value - finite[key]) < 1e-6 * max(1, abs(value))
        assert same, (key, value, finite[key])
    best = model.tree_scores(X, y, tree="best")
    return {
        "sweeps": sweeps,
        "seconds": seconds,
        "mean": {k: (None if s["mean"] != s["mean"] else float(s["mean"])) for k, s in scores.items()},
        "tree": finite,
        "best": {k: (None if s["tree"] != s["tree"] else float(s["tree"])) for k, s in best.items()},
        "defined": {k: float(s["defined"]) for k, s in scores.items() if k in ("aid", "aod")},
        "one_path": model.one_path_fraction_,
        "components": float(np.mean(model.n_components_draws_)),
    }


def peers(X, y, widths, seeds):
    """(name, seed, scores) of other methods."""
    classes = len(set(y))
    for method in ("ward", "average"):
        tree = linkage(X, method)
        cuts = np.stack([fcluster(tree, width, "maxclust") for width in widths], axis=1)
        yield f"{method}, nodes as plain", 0, scored(cuts, X, y)
        flat = fcluster(tree, classes, "maxclust")[:, None]
        yield f"{method}, as many as classes", 0, scored(flat, X, y)
    for least in (2, 3, 5):
        found = HDBSCAN(min_cluster_size=least, copy=True).fit_predict(X)
        left = found < 0
        found[left] = found.max() + 1 + np.arange(left.sum())
        yield f"HDBSCAN, least {least}", 0, scored(found[:, None], X, y)
    for seed in seeds:
        mixture = BayesianGaussianMixture(
            n_components=min(20, len(X)),
            covariance_type="diag",
            weight_concentration_prior=0.85,
            max_iter=1000,
            random_state=seed,
        )
        yield "DP mixture of Gaussians", seed, scored(mixture.fit_predict(X)[:, None], X, y)


def interval(values):
    """Mean and half of its 95 % interval."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return values.mean(), np.nan
    return values.mean(), student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))


def table(results):
    """Rows of text: every arm of every kind of set."""
    lines = []
    for what in sorted({kind(r["set"]) for r in results}):
        of = [r for r in results if kind(r["set"]) == what]
        samples = sorted({r["set"] for r in of})
        lines.append(f"\n## {what}: {', '.join(samples)}" + (f" (paper: {CLAIMS[what]} %)" if what in CLAIMS else ""))
        plain = {(r["set"], r["seed"]): r for r in of if r["arm"] == "plain"}
        order = {arm: i for i, arm in enumerate(dict.fromkeys(r["arm"] for r in of))}
        for which in ("mean", "tree", "best"):
            levels = SETTINGS[what]["depth"]
            names = ["aid", "aid_ratio", "aod", "aod_ratio", *(f"nodes_{i + 1}" for i in range(levels))]
            names += [*(f"f_{i + 1}" for i in range(levels)), "purity"]
            lines.append(f"\n{which} | seeds | {' | '.join(names)} | one path | dAID % | dAOD % | dAOD/null %")
            for arm in sorted(order, key=lambda a: (a != "plain", re.sub("C=.*", "", a), order[a])):
                own = [r for r in of if r["arm"] == arm and which in r]
                if not own:
                    continue
                cells = []
                for name in names:
                    there = [r[which][name] for r in own if r[which].get(name) is not None]
                    if not there:
                        cells.append("-")
                        continue
                    mean, half = interval(there)
                    cells.append(f"{mean:.3g}" + (f"±{half:.2g}" if np.isfinite(half) else ""))
                changes = []
                for name in ("aid", "aod", "aod_ratio"):
                    beside = [plain.get((r["set"], r["seed"]), {}).get(which, {}).get(name) for r in own]
                    pairs = zip([r[which].get(name) for r in own], beside, strict=True)
                    logs = [np.log(a / b) for a, b in pairs if a and b]
                    if arm == "plain" or len(logs) < 2:
                        changes.append("-")
                        continue
                    mean, half = interval(logs)
                    low, mid, high = (100 * np.expm1(v) for v in (mean - half, mean, mean + half))
                    changes.append(f"{mid:+.0f} ({low:+.0f} to {high:+.0f})")
                path = np.mean([r["one_path"] for r in own]) if "one_path" in own[0] else np.nan
                lines.append(f"{arm} | {len(own)} | {' | '.join(cells)} | {path:.2f} | {' | '.join(changes)}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+", default=["animals", "animals-raw", "fashion-0", "fashion-1", "fashion-2"])
    parser.add_argument("--arms", nargs="+", default=["plain", "stated", "calibrated", "peers"])
    parser.add_argument("--separations", nargs="+", type=float, default=[0.01, 0.03, 0.1, 0.3, 1.0])
    parser.add_argument("--margins", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=8000)
    parser.add_argument("--table", action="store_true", help="print the table of what is there, and do nothing")
    parser.add_argument("--out", type=Path, default=Path("bench/out/tree.json"))
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    if options.table:
        print(table(results))
        return
    if options.data is None:
        parser.error("name the folder of the data")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["set"], r["arm"], r["seed"]) for r in results}
    # how far a chain has come is told by what it is compared with: other seeds
    warnings.filterwarnings("ignore", message=".*(ESS|R-hat|single path)", category=UserWarning)

    def keep(key, found):
        results.append(dict(zip(("set", "arm", "seed"), key, strict=True)) | found)
        part = options.out.with_suffix(".part")
        part.write_text(json.dumps(results, indent=1))
        os.replace(part, options.out)  # whole or not at all
        shown = found.get("mean") or found["tree"]
        shown = {k: round(v, 3) for k, v in shown.items() if v is not None and k != "aid_zero"}
        print(*key, f"{found.get('seconds', 0):.1f} s", shown, flush=True)

    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name in options.sets:
        X, y = load(options.data, name)
        for seed in seeds:
            for target in options.arms:
                if target == "peers":
                    continue
                grid = [(c, e) for e in options.margins for c in options.separations]
                for separation, margin in [(None, None)] if target == "plain" else grid:
                    key = (name, arm_name(target, separation, margin), seed)
                    if key in done:
                        continue
                    charge = {"separation": separation, "margin": margin, "target": target, "margin_scale": None}
                    keep(key, ours(name, X, y, seed, options.sweeps, {} if target == "plain" else charge))
        if "peers" in options.arms:
            plain = [r["mean"] for r in results if (r["set"], r["arm"]) == (name, "plain")]
            if not plain:
                parser.error(f"the peers of {name} are cut as the arm `plain` says, which is not there yet")
            depth = SETTINGS[kind(name)]["depth"]
            widths = [max(1, round(np.mean([m[f"nodes_{i + 1}"] for m in plain]))) for i in range(depth)]
            for method, seed, found in peers(X, y, widths, seeds):
                if (name, method, seed) not in done:
                    keep((name, method, seed), {"tree": found})
    print(table(results))


if __name__ == "__main__":
    main()
