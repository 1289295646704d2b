"""NUTS of NumPyro on the posterior that `variegate fit experts` samples: same rows, same prior, labels summed out.

    python bench/experts_numpyro.py TRAIN TEST --experts 5 --warmup 500 --draws 1000 --chains 2

Weights are plain vectors here, as NUTS has no spheres: a vector of length g in direction a has the density of a and g
over g^(p-1).
Prints one JSON object with effective draws a second of sampling, chains one after the other on one core.
"""

import argparse
import json
import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp

jax.config.update("jax_enable_x64", True)


def read(path, scale=None):
    """Rows and classes of a table with the class `y` last, or of an svmlight file; scaled as the fit does."""
    if path.endswith(".csv"):
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        X, y = table[:, :-1], table[:, -1]
        X, scale = standardised(X, scale, np.std)
    else:
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(path, n_features=None if scale is None else len(scale[0]))
        X, scale = standardised(X.toarray(), scale, lambda X, axis: np.abs(X).max(axis))
    return X, (y > np.mean([y.min(), y.max()])).astype(float), scale


def standardised(X, scale, spread):
    if scale is None:
        width = spread(X, axis=0)
        scale = X.mean(axis=0), np.where(width > 0, width, 1.0)
    return (X - scale[0]) / scale[1], scale


def ln_normaliser(p, kappa, terms=400):
    """Log of the series 0F1(; p/2; kappa^2/4)."""
    k = jnp.arange(terms)
    weights = -gammaln(k + 1) - gammaln(k + p / 2) + gammaln(p / 2)
    return logsumexp(weights + k * 2 * jnp.log(jnp.maximum(kappa, 1e-300)[..., None] / 2), axis=-1)


def directions(A, kappa):
    """Mutual angular chain of type II, up to a constant."""
    sums = jnp.cumsum(A, axis=0)[:-1]
    pulls = jnp.sum(sums * A[1:], axis=1)
    lengths = jnp.sqrt(jnp.sum(sums * sums, axis=1) + 1e-300)
    return -jnp.sum(ln_normaliser(A.shape[1], kappa * lengths)) - kappa * jnp.sum(pulls)


def side(W, kappa, shape=2.0, rate=0.5):
    g = jnp.sqrt(jnp.sum(W * W, axis=1))
    return directions(W / g[:, None], kappa) + jnp.sum((shape - W.shape[1]) * jnp.log(g) - rate * g)


def row_likelihood(q, X, y):
    gate = X @ q["H"].T + q["c"]
    score = X @ q["W"].T + q["b"]
    sign = 2 * y[:, None] - 1
    return logsumexp(jax.nn.log_softmax(gate, axis=1) + jax.nn.log_sigmoid(sign * score), axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--experts", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--chains", type=int, default=2)
    options = parser.parse_args()
    from arviz import ess
    from numpyro.infer import MCMC, NUTS

    X, y, scale = read(options.train)
    Xt, yt, _ = read(options.test, scale)
    X, y, Xt, yt = map(jnp.asarray, (X, y, Xt, yt))
    k, p = options.experts, X.shape[1]

    def potential(q):
        intercepts = -0.5 * (jnp.sum(q["b"] ** 2) + jnp.sum(q["c"] ** 2)) / 25.0
        return -(jnp.sum(row_likelihood(q, X, y)) + side(q["W"], 0.5 * p) + side(q["H"], 0.5 * p) + intercepts)

    rng = np.random.default_rng(1)
    likelihood, predictions, seconds, warm, steps = [], [], 0.0, 0.0, 0
    for chain in range(options.chains):
        start = {
            "W": jnp.asarray(rng.normal(size=(k, p)) * p**-0.5),
            "H": jnp.asarray(rng.normal(size=(k, p)) * p**-0.5),
            "b": jnp.zeros(k),
            "c": jnp.zeros(k),
        }
        sampler = MCMC(
            NUTS(potential_fn=potential),
            num_warmup=options.warmup,
            num_samples=options.draws,
            num_chains=1,
            progress_bar=False,
        )
        key = jax.random.PRNGKey(chain)
        begin = time.perf_counter()
        sampler.warmup(key, init_params=start, extra_fields=("num_steps",))
        warm += time.perf_counter() - begin
        # compiles the sampling loop before it is timed
        sampler.run(sampler.post_warmup_state.rng_key, extra_fields=("num_steps",))
        begin = time.perf_counter()
        sampler.run(sampler.post_warmup_state.rng_key, extra_fields=("num_steps",))
        draws = sampler.get_samples()
        jax.block_until_ready(draws)
        seconds += time.perf_counter() - begin
        steps += int(sampler.get_extra_fields()["num_steps"].sum())
        likelihood.append(np.asarray(jax.lax.map(lambda q: jnp.sum(row_likelihood(q, X, y)), draws)))
        predictions.append(np.asarray(jax.lax.map(lambda q: jnp.exp(row_likelihood(q, Xt, yt)), draws)))
    likelihood, predictions = np.array(likelihood), np.array(predictions)
    sizes = np.sort([float(ess(predictions[:, :, i])) for i in range(predictions.shape[2])])
    of_likelihood = float(ess(likelihood))
    figures = {
        "benchmark": "experts by NUTS of NumPyro",
        "warm_seconds": warm,
        "draw_seconds": seconds,
        "steps_a_draw": steps / (options.chains * options.draws),
        "log_likelihood": {
            "mean": float(likelihood.mean()),
            "ess": of_likelihood,
            "per_second": of_likelihood / seconds,
        },
        "predictions": {
            "ess_least": sizes[0],
            "ess_median": float(np.median(sizes)),
            "least_per_second": sizes[0] / seconds,
            "median_per_second": float(np.median(sizes)) / seconds,
        },
        "log_loss": float(-np.log(predictions.mean(axis=(0, 1))).mean()),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
