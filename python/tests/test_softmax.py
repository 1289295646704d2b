"""Softmax: what is particular to it. Its mathematics is tested in Rust."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from variegate import SoftmaxClassifier


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_fits_iris(iris):
    X, y = iris
    model = SoftmaxClassifier().fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.coef_.shape == model.coef_sd_.shape == (3, 4)
    assert model.intercept_.shape == model.intercept_sd_.shape == (3,)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-9)  # against the mean of all classes
    assert (model.coef_sd_ > 0).all()
    assert model.elbo_trace_.shape == (model.n_iter_,)
    assert (np.diff(model.elbo_trace_) > -1e-8).all()
    assert model.bound_ == model.elbo_trace_[-1]
    assert model.summary().converged
    assert "converged" in str(model.summary())


def test_methods_agree_where_they_should(iris):
    X, y = iris
    model = SoftmaxClassifier(random_state=3).fit(X, y)
    P = {method: model.predict_proba(X, method=method) for method in ("probit", "mc", "map")}
    np.testing.assert_array_equal(P["probit"], model.predict_proba(X))
    np.testing.assert_allclose(P["probit"], P["mc"], atol=0.05)  # a closed form against draws
    # the mean is a linear predictor with the reported coefficients
    eta = X @ model.coef_.T + model.intercept_
    plug_in = np.exp(eta - eta.max(axis=1, keepdims=True))
    np.testing.assert_allclose(P["map"], plug_in / plug_in.sum(axis=1, keepdims=True), rtol=1e-7, atol=1e-12)
    # averaging over uncertain weights makes predictions more careful
    assert P["probit"].max(axis=1).mean() < P["map"].max(axis=1).mean()


def test_two_classes_have_one_row_of_log_odds(iris):
    """As scikit-learn has it, and as the summary says it."""
    X, y = iris
    X, y = X[y != 0, :2], y[y != 0]
    model = SoftmaxClassifier().fit(X, y)
    assert model.coef_.shape == model.coef_sd_.shape == (1, 2)
    assert model.intercept_.shape == model.intercept_sd_.shape == (1,)
    P = model.predict_proba(X, method="map")
    np.testing.assert_allclose(np.log(P[:, 1] / P[:, 0]), X @ model.coef_[0] + model.intercept_[0], atol=1e-9)
    rows = list(model.summary().rows.values())
    np.testing.assert_allclose([row[0] for row in rows], [*model.coef_[0], *model.intercept_])
    np.testing.assert_allclose([row[1] for row in rows], [*model.coef_sd_[0], *model.intercept_sd_])
    reference = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    assert reference.coef_.shape == model.coef_.shape
    assert (np.sign(reference.coef_) == np.sign(model.coef_)).all()
    draws = SoftmaxClassifier(inference="gibbs", n_chains=2, n_warmup=20, n_draws=30, random_state=1).fit(X, y)
    assert draws.coef_.shape == (1, 2)
    np.testing.assert_allclose(draws.coef_, draws.posterior_["coef"].mean(axis=(0, 1)), rtol=1e-9)


def test_much_data_gives_maximum_likelihood():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20_000, 3))
    W = rng.normal(size=(3, 3))
    y = (X @ W.T + rng.gumbel(size=(20_000, 3))).argmax(axis=1)
    model = SoftmaxClassifier().fit(X, y)
    reference = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y).coef_
    reference -= reference.mean(axis=0)
    # the posterior mean lies within a fraction of a posterior deviation of the maximum
    assert (np.abs(model.coef_ - reference) < 0.5 * model.coef_sd_).all()


def test_weights_are_repeated_rows(iris):
    X, y = iris
    weights = np.random.default_rng(1).integers(0, 4, size=len(y))
    weighted = SoftmaxClassifier(tol=1e-8).fit(X, y, sample_weight=weights)
    repeated = SoftmaxClassifier(tol=1e-8).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-8)
    assert weighted.bound_ == pytest.approx(repeated.bound_, rel=1e-9)
    # a class without any weight is not there
    without = SoftmaxClassifier().fit(X, y, sample_weight=(y != 1).astype(float))
    np.testing.assert_array_equal(without.classes_, [0, 2])
    np.testing.assert_allclose(without.coef_, SoftmaxClassifier().fit(X[y != 1], y[y != 1]).coef_, rtol=1e-6)


def test_says_that_it_has_not_converged(iris):
    with pytest.warns(ConvergenceWarning, match="raise `max_iter`"):
        SoftmaxClassifier(max_iter=2, tol=1e-12).fit(*iris)


def test_settings_that_contradict_each_other_are_refused(iris):
    with pytest.raises(ValueError, match="`prior_precision` is 2.*left out unless"):
        SoftmaxClassifier(prior_precision=2.0).fit(*iris)
    with pytest.raises(ValueError, match="`bound` is loose.*one of tilted, double"):
        SoftmaxClassifier(bound="loose").fit(*iris)


def test_measurements_are_hardly_classes():
    X = np.linspace(0, 1, 60)[:, None]
    with pytest.raises(ValueError, match="continuous"):
        SoftmaxClassifier().fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="60 different numbers.*regression"):
        SoftmaxClassifier(max_iter=2).fit(X, np.array([f"{v:.4f}" for v in X[:, 0]]))
