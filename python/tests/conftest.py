"""Estimators and data that the tests share."""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # else scikit-learn skips a check

import numpy as np
import pytest
from sklearn.base import clone

from variegate import BayesianLogisticRegression, SoftmaxClassifier

# small enough that a fit takes milliseconds
SMALL = [
    BayesianLogisticRegression(n_chains=2, n_warmup=20, n_draws=50, random_state=1),
    SoftmaxClassifier(random_state=1),
]


def pytest_generate_tests(metafunc):
    if "small" in metafunc.fixturenames:
        metafunc.parametrize("small", SMALL, ids=lambda e: type(e).__name__, indirect=True)


@pytest.fixture
def small(request):
    """One estimator of each kind, unfitted, with settings that make it fast."""
    return clone(request.param)


@pytest.fixture
def two_classes():
    """120 rows, 3 columns, 2 classes that overlap."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 3)) * [1.0, 5.0, 0.2] + [0.0, 100.0, 0.0]
    log_odds = X[:, 0] - 0.3 * (X[:, 1] - 100) + 1.0
    return X, (rng.random(120) < 1 / (1 + np.exp(-log_odds))).astype(int)
