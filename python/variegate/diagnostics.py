"""Convergence diagnostics of Markov chains, as ArviZ defines them and without needing it.

Every function takes draws of one quantity as an array of shape (chain, draw); one chain alone may be given as a vector.
What cannot be computed (fewer than four draws, a NaN among them) is NaN.

Examples
--------
>>> import numpy as np
>>> from variegate import diagnostics
>>> draws = np.random.default_rng(0).normal(size=(4, 1000))
>>> bool(diagnostics.r_hat(draws) < 1.01)
True
"""

import numpy as np

from . import _core

__all__ = ["e_bfmi", "ess_bulk", "ess_mean", "ess_tail", "mcse_mean", "mcse_quantile", "mcse_sd", "r_hat"]


def _chains(draws):
    draws = np.asarray(draws, dtype=np.float64, order="C")
    if draws.ndim == 1:
        draws = draws[np.newaxis]
    if draws.ndim != 2 or draws.size == 0:
        raise ValueError(f"draws must have the shape (chain, draw) and at least one draw, not {draws.shape}")
    return draws


def r_hat(draws):
    """Rank-normalised split R-hat; above 1.01 the chains have not mixed."""
    return _core.r_hat(_chains(draws))


def ess_bulk(draws):
    """Effective sample size for the centre of the distribution."""
    return _core.ess_bulk(_chains(draws))


def ess_tail(draws):
    """Effective sample size for the 5 % and 95 % quantiles, the smaller of the two."""
    return _core.ess_tail(_chains(draws))


def ess_mean(draws):
    """Effective sample size for the mean."""
    return _core.ess_mean(_chains(draws))


def mcse_mean(draws):
    """Monte Carlo standard error of the mean."""
    return _core.mcse_mean(_chains(draws))


def mcse_sd(draws):
    """Monte Carlo standard error of the standard deviation."""
    return _core.mcse_sd(_chains(draws))


def mcse_quantile(draws, p):
    """Monte Carlo standard error of the quantile at probability `p`."""
    return _core.mcse_quantile(_chains(draws), p)


def e_bfmi(energy):
    """Energy Bayesian fraction of missing information, one number a chain; below 0.3 the tails are suspect."""
    return np.asarray(_core.e_bfmi(_chains(energy)))
