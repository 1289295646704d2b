"""Diagnostics against ArviZ on the same draws."""

import warnings

import numpy as np
import pytest

from variegate import diagnostics

az = pytest.importorskip("arviz", reason="the diagnostics are compared with ArviZ, which is not installed")


def autoregressive(rng, chains, draws, rho):
    x = rng.normal(size=(chains, draws))
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


def cases():
    rng = np.random.default_rng(8)
    for chains in (1, 2, 4, 7):
        for draws in (4, 5, 7, 10, 101, 500):
            yield f"independent {chains}x{draws}", rng.normal(size=(chains, draws))
    for rho in (-0.9, 0.5, 0.95):
        yield f"autoregressive {rho}", autoregressive(rng, 4, 400, rho)
        yield f"autoregressive, odd, {rho}", autoregressive(rng, 3, 333, rho)
    yield "chains apart", autoregressive(rng, 4, 200, 0.5) + np.arange(4)[:, None]
    yield "chains of other widths", rng.normal(size=(4, 200)) * (1.0 + np.arange(4)[:, None])
    yield "heavy tails", rng.standard_cauchy(size=(4, 300))
    yield "ties", rng.integers(0, 4, size=(4, 250)).astype(float)
    yield "two values", rng.integers(0, 2, size=(2, 101)).astype(float)
    yield "constant", np.full((4, 100), 1.5)
    yield "one chain constant", np.vstack([np.zeros(100), rng.normal(size=(2, 100))])
    yield "large mean", 1e6 + rng.normal(size=(4, 200))
    yield "tiny scale", 1e-12 * rng.normal(size=(4, 200))
    yield "trend", np.linspace(0, 1, 200) + 0.1 * rng.normal(size=(4, 200))


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_arviz(name):
    draws = CASES[name]
    pairs = {
        "r_hat": (diagnostics.r_hat, lambda x: az.rhat(x, method="rank")),
        "ess_bulk": (diagnostics.ess_bulk, lambda x: az.ess(x, method="bulk")),
        "ess_tail": (diagnostics.ess_tail, lambda x: az.ess(x, method="tail")),
        "ess_mean": (diagnostics.ess_mean, lambda x: az.ess(x, method="mean")),
        "mcse_mean": (diagnostics.mcse_mean, lambda x: az.mcse(x, method="mean")),
        "mcse_sd": (diagnostics.mcse_sd, lambda x: az.mcse(x, method="sd")),
        "e_bfmi": (diagnostics.e_bfmi, az.bfmi),
    }
    for p in (0.05, 0.5, 0.9):
        pairs[f"mcse_quantile {p}"] = (
            lambda x, p=p: diagnostics.mcse_quantile(x, p),
            lambda x, p=p: az.mcse(x, method="quantile", prob=p),
        )
    for what, (ours, theirs) in pairs.items():
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = theirs(draws)
        np.testing.assert_allclose(ours(draws), expected, rtol=1e-6, err_msg=what)


def test_takes_one_chain_as_a_vector_and_refuses_other_shapes():
    x = np.random.default_rng(1).normal(size=200)
    assert diagnostics.ess_bulk(x) == diagnostics.ess_bulk(x[None])
    assert np.isnan(diagnostics.r_hat(x))
    assert diagnostics.ess_bulk(np.asfortranarray(np.stack([x, x]))) > 0
    for bad in (np.zeros((2, 3, 4)), np.zeros((2, 0)), 3.0):
        with pytest.raises(ValueError, match="chain, draw"):
            diagnostics.r_hat(bad)
