"""The other side of each comparison: the same work done by the package that people use today."""

import time

import numpy as np


def polya_gamma(c, draws, repeats, method):
    """Times of `repeats` vectorised calls for `draws` draws of PG(1, c); `method` None is the package's default."""
    from polyagamma import random_polyagamma

    if c == "mix":
        i = np.arange(draws)
        tilt = 6.0 * ((i * 7919 % draws) / draws * 2.0 - 1.0)
    else:
        tilt = np.full(draws, float(c))
    rng = np.random.default_rng(1)
    out = np.empty(draws)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        random_polyagamma(1, tilt, out=out, method=method, random_state=rng)
        times.append(time.perf_counter() - begin)
    return times, float(out.mean())


def von_mises_fisher(dimension, kappa, draws, repeats):
    """Times of `repeats` calls for `draws` draws of the von Mises-Fisher distribution."""
    from scipy.stats import vonmises_fisher

    mu = np.full(dimension, dimension**-0.5)
    distribution = vonmises_fisher(mu, kappa, seed=np.random.default_rng(1))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        out = distribution.rvs(draws)
        times.append(time.perf_counter() - begin)
    return times, float((out @ mu).mean())
