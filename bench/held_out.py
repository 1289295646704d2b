"""How exact and how dear annealed scores of new rows are: `python bench/held_out.py [--factors 12 --columns 200]`.

Generates counts, fits `factors` to most of the rows and scores the rest by `SharedFactorModel.held_out` at several
numbers of temperatures. Wants the extension as a release build.
"""

import argparse
import resource
import warnings

import numpy as np

import variegate as vg


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--factors", type=int, default=12)
    options.add_argument("--columns", type=int, default=200)
    options.add_argument("--rows", type=int, default=300)
    options.add_argument("--held-out", type=int, default=30)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    factors = rng.gamma(0.1, 1, size=(given.factors, given.columns))
    factors /= factors.sum(1, keepdims=True)
    shape = given.rows + given.held_out, given.factors
    weights = rng.gamma(1.0, 20.0, size=shape) * (rng.random(shape) < 3 / given.factors)
    X = rng.poisson(weights @ factors + 0.01).astype(float)
    model = vg.SharedFactorModel(n_warmup=150, n_draws=40, thin=2, random_state=1).fit(X[: given.rows])
    print("temperatures  nats a row  error  effective  CPU seconds")
    for temperatures in (2, 5, 10, 20, 50):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        found = model.held_out(X[given.rows :], temperatures=temperatures)
        spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
        print(
            f"{temperatures:12}  {found.log_ppd:10.3f}  {found.error.mean():.3f}"
            f"  {np.median(found.effective):9.1f}  {spent:.1f}"
        )


if __name__ == "__main__":
    main()
