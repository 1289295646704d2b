"""Estimators and data that the tests share."""

import os
import signal

os.environ["SCIPY_ARRAY_API"] = "1"  # else scikit-learn skips a check

import numpy as np
import pytest
from sklearn.base import clone

from variegate import (
    BayesianLogisticRegression,
    BayesianSVC,
    HierarchicalMixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    SoftmaxClassifier,
)

# whoever starts this in the background of a shell hands down that Ctrl-C is ignored: tests of it would wait for ever
signal.signal(signal.SIGINT, signal.default_int_handler)

# small enough that a fit takes milliseconds; test_experts.py has diverse experts
FEW = {"n_init": 2, "n_vb": 1, "tol": 0.01, "max_iter": 100, "random_state": 1}
SMALL = [
    BayesianLogisticRegression(n_chains=2, n_warmup=20, n_draws=50, random_state=1),
    BayesianLogisticRegression(inference="vb", random_state=1),
    BayesianSVC(inference="vb", random_state=1),
    SoftmaxClassifier(random_state=1),
    MultimodalSoftmaxClassifier(subclasses="auto:2", **FEW),
    HierarchicalMixtureOfExpertsClassifier(experts="2", **FEW),
    HierarchicalMixtureOfExpertsClassifier(gates=["expert", ["expert", "expert"]], **FEW),
]
REGRESSORS = [MixtureOfExpertsRegressor(experts="auto:2", **FEW)]


def pytest_generate_tests(metafunc):
    if "small" in metafunc.fixturenames:
        metafunc.parametrize("small", SMALL, ids=lambda e: type(e).__name__, indirect=True)


@pytest.fixture
def small(request):
    """One classifier of each kind, unfitted, with settings that make it fast."""
    return clone(request.param)


@pytest.fixture
def bent():
    """Two outcomes of one column, straight on both sides of a bend."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, size=(150, 1))
    mean = np.where(X[:, 0] < 0, -2 * X[:, 0], 3 * X[:, 0])
    return X, np.c_[mean + 0.1 * rng.normal(size=150), 5 - 10 * mean + 3 * rng.normal(size=150)]


@pytest.fixture
def two_parts():
    """200 rows of two classes, the second on both sides of the first."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=200)
    X = rng.normal(size=(200, 2)) * 0.5
    X[:, 0] += np.where(y == 1, rng.choice([-3.0, 3.0], size=200), 0.0)
    return X, y


@pytest.fixture
def two_classes():
    """120 rows, 3 columns, 2 classes that overlap."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 3)) * [1.0, 5.0, 0.2] + [0.0, 100.0, 0.0]
    log_odds = X[:, 0] - 0.3 * (X[:, 1] - 100) + 1.0
    return X, (rng.random(120) < 1 / (1 + np.exp(-log_odds))).astype(int)
