"""The support vector machine: known posteriors, what it says of classes, and how sure it is."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from variegate import BayesianLogisticRegression, BayesianSVC, diagnostics, load_run

# Six rows, a bias and one column, prior precisions 1/4 and 1; moments of the pseudo-posterior by quadrature.
X6 = np.array([[-1.2], [-0.4], [0.1], [0.7], [1.5], [-0.9]])
Y6 = np.array([0, 0, 1, 0, 1, 1])
PRIOR = {"standardize": False, "prior_precision": 1.0, "bias_precision": 0.25}
END = {"tol": 1e-15, "max_iter": 3000}


def test_draws_have_the_moments_of_the_integrated_posterior():
    model = BayesianSVC(**PRIOR, n_warmup=200, n_draws=5000, random_state=11).fit(X6, Y6)
    slope, bias = model.posterior_["coef"][..., 0, 0], model.posterior_["intercept"][..., 0]
    mean_bias, mean_slope = -0.02506267, 0.66663829
    cases = {
        "mean of the bias": (bias, mean_bias),
        "mean of the slope": (slope, mean_slope),
        "variance of the bias": ((bias - mean_bias) ** 2, 0.31155304),
        "variance of the slope": ((slope - mean_slope) ** 2, 0.22439947),
    }
    for name, (draws, exact) in cases.items():
        z = (draws.mean() - exact) / diagnostics.mcse_mean(np.ascontiguousarray(draws))
        assert abs(z) < 4, f"{name}: z = {z:.2f}"  # four comparisons: a false alarm in 4,000 seeds
    assert "pseudo-likelihood" in str(model.summary())


def test_variational_posteriors_are_the_known_ones():
    svm = BayesianSVC(inference="vb", **PRIOR, **END).fit(X6, Y6)
    assert svm.bound_ == pytest.approx(-13.23282781, abs=1e-7)
    assert svm.coef_[0, 0] == pytest.approx(0.70575965, abs=1e-7)
    assert svm.intercept_[0] == pytest.approx(-0.07501614, abs=1e-7)
    assert svm.coef_sd_[0, 0] ** 2 == pytest.approx(0.12633831, abs=1e-7)
    logistic = BayesianLogisticRegression(inference="vb", **PRIOR, **END).fit(X6, Y6)
    assert logistic.bound_ == pytest.approx(-5.36584738, abs=1e-7)
    assert logistic.coef_[0, 0] == pytest.approx(0.37333129, abs=1e-7)
    assert logistic.intercept_sd_[0] ** 2 == pytest.approx(0.61624959, abs=1e-7)
    assert np.all(np.diff(svm.elbo_trace_) >= -1e-12)
    std, interval = logistic.predict_proba_std(X6), logistic.predict_interval(X6)
    assert np.all(std > 0.05)
    assert np.all(interval[..., 0] < logistic.predict_proba(X6))
    with pytest.raises(ValueError, match="gibbs"):
        svm.predict_proba_std(X6)


def test_the_maximum_is_that_of_scikit_learn():
    """0.5 w² + C Σ max(0, 1 - s f) with C = 2 / precision; a bias of nearly no penalty."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0][:, 2:], y[y > 0]
    model = BayesianSVC(inference="map", prior_precision=1.0, bias_precision=1e-6, standardize=False, **END).fit(X, y)
    reference = SVC(kernel="linear", C=2.0, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-3)
    agree = (model.predict(X) == reference.predict(X)).mean()
    assert agree > 0.98


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inference", ["gibbs", "vb", "map"])
def test_classes_are_told_apart_one_against_the_rest(inference, tmp_path):
    X, y = load_iris(return_X_y=True)
    short = {"n_chains": 2, "n_warmup": 100, "n_draws": 100} if inference == "gibbs" else {}
    model = BayesianSVC(inference=inference, random_state=1, out=tmp_path / "run", **short).fit(X, y)
    assert model.coef_.shape == (3, 4)
    values = model.decision_function(X)
    np.testing.assert_allclose(values, X @ model.coef_.T + model.intercept_)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.85
    back = load_run(tmp_path / "run")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(back.decision_function(sparse.csr_array(X)), values)
    assert back.class_weight is None


def test_weights_of_classes():
    balanced = BayesianSVC(inference="vb", class_weight="balanced", **PRIOR).fit(X6[:5], Y6[:5])
    by_hand = BayesianSVC(inference="vb", class_weight={0: 5 / 6, 1: 5 / 4}, **PRIOR).fit(X6[:5], Y6[:5])
    np.testing.assert_allclose(balanced.coef_, by_hand.coef_, rtol=1e-6)
    plain = BayesianSVC(inference="vb", **PRIOR).fit(X6[:5], Y6[:5])
    assert abs(plain.intercept_[0] - balanced.intercept_[0]) > 1e-3
