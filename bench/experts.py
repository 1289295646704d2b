"""Effective draws a second of mixtures of experts: the default sampler, the paper's random walk, Gibbs, and NUTS.

    cargo build --release -p variegate-bench
    python bench/experts.py                      # simulated rows: 500 x 20, five experts
    python bench/experts.py DATA/a9a             # also 2,000 rows of a9a (train.svm.gz, test.svm.gz)

Each chain runs alone on one core; times are those of sampling, without warm-up. NUTS is that of NumPyro and is left out
where that is not installed (`pip install numpyro arviz`).
"""

import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "target" / "release" / "variegate-bench"


def simulated(folder):
    """Rows of five experts with weights of length 4 behind gates of length 4."""
    rng = np.random.default_rng(0)
    rows, p, k = 700, 20, 5
    X = rng.normal(size=(rows, p))
    W, H = rng.normal(size=(2, k, p))
    W, H = (4 * A / np.linalg.norm(A, axis=1, keepdims=True) for A in (W, H))
    gate = np.exp(X @ H.T)
    gate /= gate.sum(axis=1, keepdims=True)
    z = np.array([rng.choice(k, p=g) for g in gate])
    y = (rng.random(rows) < 1 / (1 + np.exp(-(X @ W.T)[np.arange(rows), z]))).astype(int)
    paths = []
    for name, part in (("train", slice(0, 500)), ("test", slice(500, 700))):
        paths.append(folder / f"{name}.csv")
        table = np.column_stack([X[part], y[part]])
        header = ",".join([f"x{j}" for j in range(p)] + ["y"])
        np.savetxt(paths[-1], table, delimiter=",", header=header, comments="", fmt=["%.17g"] * p + ["%d"])
    return paths


def subset(folder, data):
    """Some rows of a9a, one of which has the last column."""
    paths = []
    rng = random.Random(1)
    for name, rows in (("train", 2000), ("test", 200)):
        with gzip.open(Path(data) / f"{name}.svm.gz", "rt") as file:
            lines = file.readlines()
        rng.shuffle(lines)
        last = next(i for i, line in enumerate(lines) if " 123:" in line)
        lines[0], lines[last] = lines[last], lines[0]
        paths.append(folder / f"{name}.svm")
        paths[-1].write_text("".join(lines[:rows]))
    return paths


def ours(train, test, draws, warmup, chains, **settings):
    words = [f"train={train}", f"test={test}", f"draws={draws}", f"warmup={warmup}", f"chains={chains}"]
    command = [BENCH, "experts", *words, "settings=" + json.dumps(settings)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def nuts(train, test):
    command = [sys.executable, ROOT / "bench" / "experts_numpyro.py", train, test, "--warmup", "300", "--draws", "300"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def show(name, figures, reference):
    row = [figures["log_likelihood"]["per_second"], figures["predictions"]["median_per_second"]]
    row.append(figures["predictions"]["least_per_second"])
    ratios = [f"{a / b:.0f}x" for a, b in zip(reference or row, row, strict=True)]
    numbers = " | ".join(f"{v:.2f} ({r})" for v, r in zip(row, ratios, strict=True))
    print(f"| {name} | {numbers} | {figures['draw_seconds']:.0f} | {figures['log_loss']:.4f} |", flush=True)
    return row


def main():
    sets = [("simulated", simulated)]
    if len(sys.argv) > 1:
        sets.append(("a9a, 2,000 rows", lambda folder: subset(folder, sys.argv[1])))
    for title, make in sets:
        with tempfile.TemporaryDirectory() as folder:
            train, test = make(Path(folder))
            print(f"\n{title}\n")
            print("| sampler | log likelihood | median prediction | worst prediction | seconds | log loss |")
            print("|---|---|---|---|---|---|")
            best = show("hmc", ours(train, test, 2000, 500, 4), None)
            show("mh", ours(train, test, 10_000, 1000, 4, inference="mh"), best)
            show("gibbs", ours(train, test, 1000, 200, 4, inference="gibbs"), best)
            if title == "simulated" and (found := nuts(train, test)):
                show("NUTS, NumPyro", found, best)


if __name__ == "__main__":
    main()
