"""Seconds of a sweep on a Dask cluster of this machine, against the number of workers, beside threads.

    python bench/dask_workers.py [--rows 200000] [--workers 1 2 4] [--programs logistic softmax experts factors]

Each figure is the difference of a long and a short fit, divided by the sweeps between them, so that taking rows up, the
survey and the start do not count; threads and clusters take turns. A last column has fits of 2,000 rows, where nothing
but messages takes time. Results go to `bench/out/dask.json`.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np
from distributed import Client, LocalCluster

import variegate as vg

warnings.filterwarnings("ignore")
OUT = pathlib.Path(__file__).parent / "out"


def classes(rows, columns=50):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, columns))
    return (X, (X @ rng.normal(size=columns) + rng.logistic(size=rows) > 0).astype(int)), {}


def counts(rows, columns=50):
    rng = np.random.default_rng(1)
    used = rng.random((rows, 5)) < 0.4
    X = rng.poisson((used * rng.gamma(1.0, 3.0, (rows, 5))) @ rng.gamma(0.3, 1.0, (5, columns)) + 0.05)
    return (X,), {"sources": rng.integers(0, 3, rows)}


CHAIN = {"n_chains": 1, "n_draws": 1, "random_state": 1}
PROGRAMS = {
    "logistic": (classes, 20, lambda n: vg.BayesianLogisticRegression(n_warmup=n, **CHAIN)),
    "softmax": (classes, 8, lambda n: vg.SoftmaxClassifier(max_iter=n, tol=1e-12, random_state=1)),
    "experts": (classes, 6, lambda n: vg.MixtureOfExpertsClassifier(experts=3, n_warmup=n, **CHAIN)),
    "factors": (counts, 6, lambda n: vg.SharedFactorModel(n_warmup=n, thin=1, **CHAIN)),
}


def seconds(make, sweeps, rows, **more):
    """Of a sweep."""
    data, beside = rows
    took = []
    for n in (2, 2 + sweeps):
        begin = time.perf_counter()
        model = make(n).set_params(**more).fit(*data, **beside)
        took.append((time.perf_counter() - begin, model.n_iter_))
    return (took[1][0] - took[0][0]) / max(took[1][1] - took[0][1], 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    given = parser.parse_args()
    found = {"rows": given.rows}
    for name in given.programs:
        simulate, sweeps, make = PROGRAMS[name]
        large, small = simulate(given.rows), simulate(2000)
        figures = found[name] = {}
        for threads in (1, 2):
            figures[f"{threads} threads"] = [seconds(make, sweeps, rows, threads=threads) for rows in (large, small)]
        for workers in given.workers:
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                engine = vg.DaskEngine(client)
                figures[f"{workers} workers"] = [seconds(make, sweeps, rows, engine=engine) for rows in (large, small)]
        for how, (all_rows, few) in figures.items():
            print(f"{name:10} {how:10} {all_rows:8.3f} s a sweep; 2,000 rows {few:8.4f} s", flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "dask.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
