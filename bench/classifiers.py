"""Classification of real tables: our searches beside what scikit-learn has, on every split of thirteen sets.

    python bench/classifiers.py DATA [--sets banana vowel ...] [--splits 3] [--methods ...] [--out FILE]
    python bench/classifiers.py --table FILE... [--methods ...]

DATA has `ida/SET/` and `multiclass/SET/`, each with `data.csv.gz` (columns, then `y`) and `train_rows.tsv.gz` (a line
a split: its number, a tab, the rows of the fit from 0; every other row is a new row). None of it belongs to the
project. The others are tuned by five folds and the log loss; ours choose by their criterion. What is measured on new
rows: log loss, error, calibration error (15 bins of the largest probability), and seconds of one thread for choice
and fit together. Results are kept as they come, and what a file has already is not done again; `--table` prints the
means of one or more files over the splits that all methods have, and the mean rank of every method in log loss. What
was measured last is in `bench/measured/classifiers.json`; `--out` with a copy of it measures what is missing there.
"""

import argparse
import gzip
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

OURS = {
    "softmax": {},
    "maps": {"input_map": "auto"},
    "subclasses": {"subclasses": "auto"},
    "subclasses, maps": {"subclasses": "auto", "input_map": "auto"},
    "subclasses, by the bound": {"subclasses": "auto", "criterion": "elbo-sym"},
    "subclasses, by loo": {"subclasses": "auto", "criterion": "loo"},
    "experts": {"experts": "auto"},
    "experts, maps": {"experts": "auto", "input_map": "auto"},
    "experts, by the bound": {"experts": "auto", "criterion": "elbo-sym"},
    "experts, by loo": {"experts": "auto", "criterion": "loo"},
}
OTHERS = ("logistic regression", "random forest", "gradient boosting", "RBF SVM", "MLP")


def ours(settings):
    # the others can be measured where the package is not installed
    from variegate import HierarchicalMixtureOfExpertsClassifier, MultimodalSoftmaxClassifier, SoftmaxClassifier

    if "experts" in settings:
        return HierarchicalMixtureOfExpertsClassifier(random_state=0, threads=1, progress=False, **settings)
    if "subclasses" in settings:
        return MultimodalSoftmaxClassifier(random_state=0, threads=1, progress=False, **settings)
    return SoftmaxClassifier(random_state=0, threads=1, progress=False, **settings)


def other(name, columns):
    """A classifier with the grid that folds choose from."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    if name == "logistic regression":
        model, grid = LogisticRegression(max_iter=2000), {"C": np.logspace(-3, 3, 7)}
    elif name == "random forest":
        model = RandomForestClassifier(200, random_state=0)
        grid = {"min_samples_leaf": [1, 3, 10], "max_features": ["sqrt", 0.5]}
    elif name == "gradient boosting":
        model = HistGradientBoostingClassifier(random_state=0, learning_rate=0.05)
        grid = {"max_leaf_nodes": [4, 16], "max_iter": [50, 150]}
    elif name == "RBF SVM":
        grid = {"C": [0.3, 1, 3, 10, 100], "gamma": np.array([0.1, 0.3, 1, 3]) / columns}
        search = GridSearchCV(SVC(), grid, cv=folds)
        return make_pipeline(StandardScaler(), CalibratedClassifierCV(search, cv=folds, ensemble=False))
    else:
        model = MLPClassifier((50,), max_iter=500, random_state=0)
        grid = {"alpha": [1e-2, 1e-1, 1.0, 10.0]}
    return make_pipeline(StandardScaler(), GridSearchCV(model, grid, cv=folds, scoring="neg_log_loss"))


def load(folder):
    table = pd.read_csv(folder / "data.csv.gz")
    lines = gzip.decompress((folder / "train_rows.tsv.gz").read_bytes()).decode().splitlines()
    splits = [np.array(line.split("\t")[1].split(), int) for line in lines]
    return table.drop(columns="y").to_numpy(float), table.y.to_numpy(), splits


def calibration_error(p, right, bins=15):
    """Mean distance of confidence and accuracy over bins of confidence, weighted by their rows."""
    top = p.max(axis=1)
    at = np.minimum((top * bins).astype(int), bins - 1)
    parts = [(at == b) for b in range(bins) if (at == b).any()]
    return float(sum(abs(top[part].mean() - right[part].mean()) * part.mean() for part in parts))


def measure(model, X, y, train):
    new = np.setdiff1d(np.arange(len(y)), train)
    begin = time.process_time()
    model.fit(X[train], y[train])
    seconds = time.process_time() - begin
    p = model.predict_proba(X[new])
    right = model.classes_[p.argmax(axis=1)] == y[new]
    out = {
        "log_loss": float(log_loss(y[new], p, labels=model.classes_)),
        "error": float(1 - right.mean()),
        "calibration_error": calibration_error(p, right),
        "seconds": seconds,
    }
    if hasattr(model, "structure_"):
        out["structure"] = model.structure_
    return out


def show(files, wanted):
    rows = pd.concat([pd.DataFrame(json.loads(Path(file).read_text())) for file in files])
    methods = [m for m in (*OURS, *OTHERS) if m in wanted and (rows.method == m).any()]
    for figure, digits in (("log_loss", 3), ("error", 3), ("calibration_error", 3), ("seconds", 1)):
        # splits that every method has
        wide = rows.pivot_table(index=["set", "split"], columns="method", values=figure)[methods].dropna()
        print(
            f"\n{figure}, {len(wide)} splits\n\n| set | " + " | ".join(methods) + " |\n|" + "---|" * (len(methods) + 1)
        )
        means = wide.groupby("set").mean()
        for name, values in means.iterrows():
            print(f"| {name} | " + " | ".join(f"{v:.{digits}f}" for v in values) + " |")
        print("| mean | " + " | ".join(f"{v:.{digits}f}" for v in means.mean()) + " |")
        if figure == "log_loss":
            print("| mean rank | " + " | ".join(f"{v:.2f}" for v in means.rank(axis=1).mean()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=[*OURS, *OTHERS])
    parser.add_argument("--out", type=Path, default=Path("bench/out/classifiers.json"))
    parser.add_argument("--table", nargs="+")
    options = parser.parse_args()
    if options.table:
        show(options.table, options.methods)
        return
    warnings.simplefilter("ignore")
    folders = {f.name: f for kind in ("ida", "multiclass") for f in sorted((options.data / kind).iterdir())}
    done = json.loads(options.out.read_text()) if options.out.exists() else []
    known = {(r["set"], r["split"], r["method"]) for r in done}
    tables = {name: load(folders[name]) for name in options.sets or folders}
    # split by split, so that a run that is stopped has all sets
    for split in range(options.splits):
        for name, (X, y, splits) in tables.items():
            if split >= len(splits):
                continue
            for method in options.methods:
                if (name, split, method) in known:
                    continue
                model = ours(OURS[method]) if method in OURS else other(method, X.shape[1])
                figures = measure(model, X, y, splits[split])
                done.append({"set": name, "split": split, "method": method, **figures})
                options.out.parent.mkdir(exist_ok=True)
                # a line each, so that kept results can be compared
                options.out.write_text("[\n" + ",\n".join(json.dumps(r) for r in done) + "\n]\n")
                told = " ".join(f"{k} {v:.4f}" if isinstance(v, float) else str(v) for k, v in figures.items())
                print(f"{name} {split} {method}: {told}", flush=True)


if __name__ == "__main__":
    main()
