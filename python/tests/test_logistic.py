"""Logistic regression: the right posterior, and access to its draws."""

import sys
import types

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from variegate import BayesianLogisticRegression, diagnostics

# Six rows, a bias and one column, prior precisions 1/4 and 1; moments of the posterior by two-dimensional quadrature.
X6 = np.array([[-1.2], [-0.4], [0.1], [0.7], [1.5], [-0.9]])
Y6 = np.array([0, 0, 1, 0, 1, 1])
PRIOR = {"standardize": False, "prior_precision": 1.0, "bias_precision": 0.25}


def test_moments_agree_with_the_integrated_posterior():
    model = BayesianLogisticRegression(**PRIOR, n_warmup=100, n_draws=5000, random_state=11).fit(X6, Y6)
    slope, bias = model.posterior_["coef"][..., 0], model.posterior_["intercept"]
    mean_bias, mean_slope = 0.01803091, 0.40473653
    cases = {
        "mean of the bias": (bias, mean_bias),
        "mean of the slope": (slope, mean_slope),
        "variance of the bias": ((bias - mean_bias) ** 2, 0.69719672),
        "variance of the slope": ((slope - mean_slope) ** 2, 0.51237081),
        "covariance": ((bias - mean_bias) * (slope - mean_slope), 0.02418444),
    }
    for name, (draws, exact) in cases.items():
        z = (draws.mean() - exact) / diagnostics.mcse_mean(draws)
        assert abs(z) < 4, f"{name}: z = {z:.2f}"  # five comparisons: a false alarm in 3,000 seeds
    assert model.coef_[0, 0] == pytest.approx(slope.mean())
    assert model.intercept_[0] == pytest.approx(bias.mean())


def test_whole_weights_are_repeated_rows_in_distribution():
    weights = np.array([2, 1, 0, 3, 1, 1])
    settings = dict(PRIOR, n_warmup=100, n_draws=4000)
    weighted = BayesianLogisticRegression(**settings, random_state=1).fit(X6, Y6, sample_weight=weights)
    repeated = BayesianLogisticRegression(**settings, random_state=2).fit(
        X6.repeat(weights, axis=0), Y6.repeat(weights)
    )
    for name in ("coef", "intercept"):
        a, b = (np.ascontiguousarray(m.posterior_[name].reshape(4, -1)) for m in (weighted, repeated))
        for f in (lambda v: v, np.square):
            error = np.hypot(diagnostics.mcse_mean(f(a)), diagnostics.mcse_mean(f(b)))
            assert abs(f(a).mean() - f(b).mean()) < 4 * error, name
    with pytest.raises(ValueError, match=r"row 1.*whole number.*softmax"):
        weighted.fit(X6, Y6, sample_weight=np.full(6, 0.5))


def test_draws_are_arrays_by_chain(two_classes):
    X, y = two_classes
    model = BayesianLogisticRegression(n_chains=3, n_warmup=30, n_draws=40, thin=2, random_state=4).fit(X, y)
    assert {name: values.shape for name, values in model.posterior_.items()} == {
        "coef": (3, 40, 3),
        "intercept": (3, 40),
        "log_joint": (3, 40),
    }
    assert (model.posterior_.n_chains, model.posterior_.n_draws) == (3, 40)
    assert "coef (3, 40, 3)" in repr(model.posterior_)
    assert model.n_iter_ == 30 + 2 * 40
    assert model.log_joint_trace_.shape == (3, 110)
    np.testing.assert_array_equal(model.log_joint_trace_[:, 31::2], model.posterior_["log_joint"])
    # probabilities are averages over the draws
    eta = np.einsum("cdj,nj->cdn", model.posterior_["coef"], X) + model.posterior_["intercept"][..., None]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], (1 / (1 + np.exp(-eta))).mean(axis=(0, 1)), rtol=1e-9)


def test_exports_to_arviz(two_classes):
    az = pytest.importorskip("arviz", reason="ArviZ is not installed")
    X, y = two_classes
    model = BayesianLogisticRegression(n_warmup=30, n_draws=50, random_state=4).fit(X, y)
    data = model.to_arviz()
    posterior = data["posterior"]
    assert posterior["coef"].dims == ("chain", "draw", "feature")
    assert list(posterior["coef"].coords["feature"].values) == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(posterior["coef"].values, model.posterior_["coef"])
    np.testing.assert_array_equal(data["sample_stats"]["lp"].values, model.posterior_["log_joint"])
    assert posterior.attrs["inference_library"] == "variegate"
    table = az.summary(data, round_to="none")
    ours = model.summary().to_frame()
    np.testing.assert_allclose(table["mean"].to_numpy(), ours["mean"].to_numpy(), rtol=1e-10)
    np.testing.assert_allclose(table["r_hat"].to_numpy(), ours["R-hat"].to_numpy(), rtol=1e-6)


def test_exports_to_a_tree_from_arviz_1_on(two_classes, monkeypatch):
    """A stand-in with the signature of that version, which needs a newer Python than some of ours."""
    xarray = pytest.importorskip("xarray", reason="xarray, which comes with ArviZ, is not installed")

    def from_dict(data, *, coords, dims):
        def variables(group):
            return {name: (("chain", "draw", *dims.get(name, [])), values) for name, values in group.items()}

        tree = {name: xarray.Dataset(variables(group), coords) for name, group in data.items()}
        return xarray.DataTree.from_dict(tree)

    monkeypatch.setitem(sys.modules, "arviz", types.SimpleNamespace(__version__="1.0.0rc1", from_dict=from_dict))
    model = BayesianLogisticRegression(n_warmup=30, n_draws=50, random_state=4).fit(*two_classes)
    tree = model.to_arviz()
    assert tree["posterior"]["coef"].dims == ("chain", "draw", "feature")
    assert tree["sample_stats"]["lp"].shape == (4, 50)
    assert tree["posterior"].attrs["inference_library"] == "variegate"


def test_says_in_words_that_chains_are_too_short(two_classes):
    with pytest.warns(ConvergenceWarning, match="ESS"):
        model = BayesianLogisticRegression(n_warmup=2, n_draws=8, random_state=1).fit(*two_classes)
    assert not model.summary().converged
    assert model.summary().to_dict()["notes"]


def test_a_long_enough_fit_is_quiet(two_classes, recwarn):
    model = BayesianLogisticRegression(n_draws=1500, random_state=1).fit(*two_classes)
    assert model.summary().converged
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


def test_constant_columns_are_left_out_with_a_warning(two_classes):
    X, y = two_classes
    with pytest.warns(UserWarning, match="left out 1 constant column.*x3"):
        model = BayesianLogisticRegression(n_draws=50, random_state=1).fit(np.c_[X, np.ones(len(X))], y)
    assert model.coef_.shape == (1, 4)
    assert model.coef_[0, 3] == 0


def test_three_classes_are_sent_to_softmax(two_classes):
    X, _ = two_classes
    with pytest.raises(ValueError, match="Only binary classification is supported.*SoftmaxClassifier"):
        BayesianLogisticRegression().fit(X, np.arange(len(X)) % 3)
