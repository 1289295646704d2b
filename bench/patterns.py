"""Do diverse experts see rare patterns better? Recall at 10 % false positives, with and without diversity.

    cargo build --release -p variegate-cli
    python bench/patterns.py make DIR                 # generated rows: nine clusters, sizes by a power law
    python bench/patterns.py make DIR DATA/20news     # also newsgroups: nine are positive, in the same proportions
    python bench/patterns.py fit DIR --jobs 2         # goes on where it was stopped
    python bench/patterns.py table DIR

Thresholds are set on validation rows for each fit: a shift towards "positive" would lift every recall at once.
Differences are paired by data set; intervals are Student's t over data sets, 95 %.
"""

import argparse
import gzip
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTS = (528, 412, 119, 74, 61, 48, 26, 21, 19)  # those of the literature, by ten
RATE = 0.1
CHAINS = ["--chains", "2", "--warmup", "300", "--draws", "400"]
SYSTEMS = {
    "map, squared weights": ["--prior", "gaussian", "--inference", "map"],
    "map, reward of angles": [
        "--prior",
        "mutual-angular",
        "--inference",
        "map",
        "--diversity",
        "100",
        "--gate-diversity",
        "100",
    ],
    "hmc, gaussian": ["--prior", "gaussian", *CHAINS],
    "hmc, mutual-angular": ["--prior", "mutual-angular", *CHAINS],
    "hmc, determinantal": ["--prior", "determinantal", *CHAINS],
}
NEWS = (
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
)
NEWS += ("sci.crypt", "sci.electronics", "sci.med", "sci.space")


def write(path, X, y):
    import numpy as np

    header = ",".join([*(f"x{j}" for j in range(X.shape[1])), "y"])
    formats = ["%.4g"] * X.shape[1] + ["%d"]
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt=formats)


def save(folder, train, held_out, patterns):
    """Rows to fit, rows to score, and the pattern of each of these: -1 negative, -2 negative and for the threshold."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "train.csv", *train)
    write(folder / "held_out.csv", *held_out)
    (folder / "patterns.json").write_text(json.dumps([int(p) for p in patterns]))


def clusters(folder, number):
    """Positives around nine centres in ten dimensions, negatives everywhere."""
    import numpy as np

    rng = np.random.default_rng(number)
    p, centres = 10, rng.normal(size=(9, 10)) * 1.5

    def rows(counts, negatives):
        positive = [c + 0.7 * rng.normal(size=(n, p)) for c, n in zip(centres, counts, strict=True)]
        X = np.vstack([*positive, 1.7 * rng.normal(size=(negatives, p))])
        return X, np.repeat([*range(9), -1], [*counts, negatives])

    X, kind = rows(COUNTS, 1500)
    held_out, patterns = rows([200] * 9, 6000)
    patterns[-3000:] = -2
    save(folder, (X, kind >= 0), (held_out, patterns >= 0), patterns)


def news(folder, number, data):
    """Newsgroups of two kinds are positive, their documents thinned to a power law; fifty directions of tf-idf."""
    import numpy as np
    import scipy.io
    import scipy.sparse as sp

    rng = np.random.default_rng(100 + number)
    with gzip.open(data / "docs.csv.gz", "rt") as file:
        lines = file.read().splitlines()[1:]
    group = np.array([line.split(",")[2] for line in lines])
    X = scipy.io.mmread(data / "X.mtx.gz").tocsr()
    order = rng.permutation(len(NEWS))
    kind = np.full(len(group), -1)
    for place, name in enumerate(order):
        kind[group == NEWS[name]] = place
    train, held_out = [], []
    for place, count in enumerate(COUNTS):
        rows = rng.permutation(np.flatnonzero(kind == place))
        count = min(count, len(rows) - 100)
        train += [rows[:count]]
        held_out += [rows[count : count + 200]]
    rows = rng.permutation(np.flatnonzero(kind == -1))
    train, held_out = np.concatenate([*train, rows[:1500]]), np.concatenate([*held_out, rows[1500:4500]])
    counts = X[train]
    weight = np.log(len(train) / (1.0 + np.asarray((counts > 0).sum(axis=0)).ravel())).clip(0)

    def tfidf(rows):
        A = sp.csr_matrix(X[rows], dtype=float, copy=True)
        A.data = np.log1p(A.data)
        A = A @ sp.diags(weight)
        norms = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
        return sp.diags(1 / np.maximum(norms, 1e-9)) @ A

    A = tfidf(train)
    _, _, V = sp.linalg.svds(A, k=50, random_state=0)
    patterns = kind[held_out].copy()
    negatives = np.flatnonzero(patterns == -1)
    patterns[negatives[::2]] = -2
    save(folder, (A @ V.T, kind[train] >= 0), (tfidf(held_out) @ V.T, kind[held_out] >= 0), patterns)


def fit(job):
    program, folder, experts, name, words = job
    out = folder / f"{experts}-{name}.json".replace(", ", "-").replace(" ", "-")
    if out.exists():
        return
    run = out.with_suffix("")
    quiet = ["--quiet", "--threads", "1", "--force"]
    command = [
        program,
        "fit",
        "experts",
        folder / "train.csv",
        "--target",
        "y",
        "--experts",
        experts,
        *words,
        "--out",
        run,
        *quiet,
    ]
    # 3: fitted, but chains have not converged
    if (done := subprocess.run([str(w) for w in command], capture_output=True, text=True)).returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    command = [program, "predict", run, folder / "held_out.csv", "--quiet", "-o", run / "held_out.csv"]
    subprocess.run([str(w) for w in command], check=True, capture_output=True)
    header, *lines = (run / "held_out.csv").read_text().splitlines()
    at = header.split(",").index("p_1")
    out.write_text(json.dumps([round(float(line.split(",")[at]), 6) for line in lines]))
    subprocess.run(["rm", "-rf", run], check=True)


def recalls(patterns, scores):
    """Of each pattern, and the false positives, at the threshold that the validation rows give."""
    spare = sorted((s for p, s in zip(patterns, scores, strict=True) if p == -2), reverse=True)
    threshold = spare[int(RATE * len(spare))]
    found = {}
    for p, s in zip(patterns, scores, strict=True):
        found.setdefault(p, []).append(s > threshold)
    return {p: sum(f) / len(f) for p, f in found.items()}


def table(folder):
    import numpy as np
    import scipy.stats

    def interval(values):
        values = np.asarray(values)
        half = scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        return f"{values.mean():.3f} ± {half:.3f}"

    for kind in sorted({p.name.rsplit("-", 1)[0] for p in folder.iterdir() if p.is_dir()}):
        sets = sorted(folder.glob(f"{kind}-*"))
        names = sorted({f.stem for s in sets for f in s.glob("*.json")} - {"patterns"})
        names = [n for n in names if all((s / f"{n}.json").exists() for s in sets)]
        print(f"\n{kind}, {len(sets)} data sets\n")
        columns = ("experts, system", "two most frequent", "three between", "four rarest", "against gaussian")
        print(f"| {' | '.join(columns)} | false positives |")
        print("|---|---|---|---|---|---|")
        found = {}
        for name in names:
            for s in sets:
                patterns = json.loads((s / "patterns.json").read_text())
                r = recalls(patterns, json.loads((s / f"{name}.json").read_text()))
                parts = [np.mean([r[p] for p in part]) for part in (range(2), range(2, 5), range(5, 9))]
                found.setdefault(name, []).append([*parts, r[-1]])
        for name in names:
            values = np.array(found[name])
            beside = found.get(name.split("-")[0] + "-hmc-gaussian")
            gain = (
                ""
                if beside is None or name.endswith("hmc-gaussian")
                else interval(values[:, 2] - np.array(beside)[:, 2])
            )
            cells = [interval(values[:, c]) for c in range(3)]
            print(f"| {name} | {' | '.join(cells)} | {gain} | {values[:, 3].mean():.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "fit", "table"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path, nargs="?", help="folder with X.mtx.gz and docs.csv.gz of 20 newsgroups")
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--experts", default="5,10")
    parser.add_argument("--only", default="", help="data sets whose names begin so")
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "variegate")
    given = parser.parse_args()
    if given.what == "make":
        for number in range(given.sets):
            clusters(given.folder / f"clusters-{number:02}", number)
            if given.data:
                news(given.folder / f"news-{number:02}", number, given.data)
    elif given.what == "fit":
        sets = sorted(p for p in given.folder.iterdir() if p.is_dir() and p.name.startswith(given.only))
        systems = SYSTEMS.items()
        jobs = [
            (given.program, s, int(k), name, words)
            for s in sets
            for k in given.experts.split(",")
            for name, words in systems
        ]
        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(fit, jobs))
    else:
        table(given.folder)


if __name__ == "__main__":
    main()
