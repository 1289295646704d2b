"""Writes the reference values for the convergence diagnostics, computed by ArviZ.

Run from the repository root, with ArviZ 0.23 installed:

    python tools/diagnostics_reference.py

The draws come from a small generator that the Rust test repeats operation by operation, so that only the values need
to be stored. Only additions, multiplications and comparisons are used: they round the same everywhere.
"""

import json
import logging
import math
import pathlib
import warnings

import arviz as az
import numpy as np

OUT = pathlib.Path("crates/variegate/src/diagnostics/reference.json")
SHAPES = [(4, 100), (1, 51), (2, 7), (2, 4), (2, 3)]
LONG = [("iid", 4, 1000), ("sticky", 2, 1001), ("repeats", 3, 777), ("ties", 4, 1000)]


class Generator:
    """A linear congruential generator modulo 2^64."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (6364136223846793005 * self.state + 1442695040888963407) % 2**64
        return (self.state >> 11) * 2.0**-53

    def bell(self):
        """Sum of twelve uniforms, less six: mean 0, variance 1."""
        total = 0.0
        for _ in range(12):
            total += self.uniform()
        return total - 6.0


def sticky(g, c, i, before):
    return 0.9 * before + g.bell()


def swinging(g, c, i, before):
    return -0.7 * before + g.bell()


def repeats(g, c, i, before):
    move = g.bell()
    return before + move if g.uniform() < 0.4 else before


def ties(g, c, i, before):
    return math.floor(4.0 * g.uniform()) * 1.0


KINDS = {
    "iid": lambda g, c, i, before: g.bell(),
    "sticky": sticky,
    "swinging": swinging,
    "repeats": repeats,
    "ties": ties,
    "rare": lambda g, c, i, before: 1.0 if g.uniform() < 0.03 else 0.0,
    "heavy": lambda g, c, i, before: g.bell() / (g.uniform() + 0.001),
    "shifted": lambda g, c, i, before: g.bell() + 0.3 * c,
    "scaled": lambda g, c, i, before: g.bell() * (1.0 + 0.5 * c),
    "drifting": lambda g, c, i, before: g.bell() + 0.03 * i,
    "offset": lambda g, c, i, before: 1000000.0 + g.bell(),
    "tiny": lambda g, c, i, before: 1e-20 * g.bell(),
    "alternating": lambda g, c, i, before: 1.0 if i % 2 == 0 else -1.0,
    "constant": lambda g, c, i, before: 3.5,
    "stuck": lambda g, c, i, before: 1.0 * c,
    "missing": lambda g, c, i, before: math.nan if (c == 0 and i == 2) else g.bell(),
    "infinite": lambda g, c, i, before: math.inf if (c == 0 and i == 2) else g.bell(),
}


def draws(kind, seed, chains, length):
    generator = Generator(seed)
    table = np.empty((chains, length))
    for c in range(chains):
        value = 0.0
        for i in range(length):
            value = KINDS[kind](generator, c, i, value)
            table[c, i] = value
    return table


def plain(value):
    """A number as JSON can hold it."""
    value = float(value)
    return value if math.isfinite(value) else str(value)


def reference(kind, seed, chains, length):
    x = draws(kind, seed, chains, length)
    values = {
        "r_hat": az.rhat(x),
        "ess_bulk": az.ess(x, method="bulk"),
        "ess_tail": az.ess(x, method="tail"),
        "ess_mean": az.ess(x, method="mean"),
        "ess_sd": az.ess(x, method="sd"),
        "ess_q30": az.ess(x, method="quantile", prob=0.3),
        "mcse_mean": az.mcse(x, method="mean"),
        "mcse_sd": az.mcse(x, method="sd"),
        "mcse_q05": az.mcse(x, method="quantile", prob=0.05),
        "mcse_q50": az.mcse(x, method="median"),
        "mcse_q90": az.mcse(x, method="quantile", prob=0.9),
        "mean": x.mean(),
        "sd": x.std(ddof=1),
        "bfmi": az.bfmi(x)[0],
    }
    case = {"kind": kind, "seed": seed, "chains": chains, "draws": length}
    return case | {name: plain(value) for name, value in values.items()}


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    logging.getLogger("arviz").setLevel(logging.ERROR)
    cases = [(kind, chains, length) for kind in KINDS for chains, length in SHAPES] + LONG
    lines = [json.dumps(reference(kind, 11 + i, *shape)) for i, (kind, *shape) in enumerate(cases)]
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} cases written to {OUT} with ArviZ {az.__version__}")


if __name__ == "__main__":
    main()
