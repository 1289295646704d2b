"""Writes the reference values for leave-one-out densities, computed by ArviZ.

Run from the repository root, with ArviZ 0.23 installed:

    python tools/psis_reference.py

The log likelihoods come from the small generator of `diagnostics_reference.py`, which the Rust test repeats operation
by operation, so that only the values need to be stored.
"""

import json
import pathlib
import warnings

import arviz as az
import numpy as np
from diagnostics_reference import Generator, plain
from scipy.special import logsumexp

OUT = pathlib.Path("crates/variegate/src/diagnostics/psis.json")
CASES = [(1000, 12, 1.0), (4000, 8, 0.3), (400, 10, 1.0), (100, 6, 0.5), (30, 5, 1.0), (7, 4, 1.0)]


def log_likelihoods(seed, draws, rows):
    generator = Generator(seed)
    table = np.empty((draws, rows))
    for s in range(draws):
        for i in range(rows):
            z = generator.bell()
            table[s, i] = -(0.5 + 0.1 * i) - 0.02 * (1.0 + i * i) * z * z + 0.1 * z
    return table


def reference(seed, draws, rows, efficiency):
    ln = log_likelihoods(seed, draws, rows)
    weights, k = az.psislw(-ln.T, reff=efficiency)
    elpd = logsumexp(np.asarray(weights) + ln.T, axis=1)
    lpd = logsumexp(ln, axis=0) - np.log(draws)
    return {
        "seed": seed,
        "draws": draws,
        "rows": rows,
        "efficiency": efficiency,
        "elpd": plain(elpd.sum()),
        "se": plain((rows * np.var(elpd)) ** 0.5),
        "p_loo": plain(lpd.sum() - elpd.sum()),
        "rows_elpd": [plain(v) for v in elpd],
        "k": [plain(v) for v in np.asarray(k)],
    }


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    lines = [json.dumps(reference(31 + i, *case)) for i, case in enumerate(CASES)]
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} cases written to {OUT} with ArviZ {az.__version__}")


if __name__ == "__main__":
    main()
