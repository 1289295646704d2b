"""Predictions from draws: how many there are, intervals, and log likelihoods of rows."""

import numpy as np
import pytest
from scipy.special import expit, log_expit

import variegate as vg

SHORT = {"n_chains": 2, "n_warmup": 40, "n_draws": 400, "random_state": 3}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 2))
    return X, (X[:, 0] + 0.7 * rng.normal(size=120) > 0).astype(int)


@pytest.fixture(scope="module")
def logistic(rows):
    model = vg.BayesianLogisticRegression(**SHORT).fit(*rows)
    eta = np.einsum("cdj,nj->cdn", model.posterior_["coef"], rows[0]) + model.posterior_["intercept"][..., None]
    return model, eta.reshape(-1, len(rows[0]))


def test_draws_are_thinned_evenly(logistic, rows):
    model, eta = logistic
    p = expit(eta)
    for given, chosen in [("all", slice(None)), (8, slice(50, None, 100)), (10**6, slice(None))]:
        found = model.set_params(predict_draws=given).predict_proba(rows[0])
        np.testing.assert_allclose(found[:, 1], p[chosen].mean(axis=0), rtol=1e-9)
    model.set_params(predict_draws=8)
    np.testing.assert_allclose(model.predict_proba_std(rows[0])[:, 0], p[50::100].std(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(rows[0]), p[50::100].mean(axis=0) > 0.5)
    # left open, there are as many as are needed
    enough = model.set_params(predict_draws=None).predict_proba(rows[0])[:, 1]
    assert 0 < abs(enough - p.mean(axis=0)).max() < 0.015
    for wrong in (0, -1, 2.5, "some", True):
        with pytest.raises(ValueError, match="predict_draws"):
            model.set_params(predict_draws=wrong).predict_proba(rows[0])
    model.set_params(predict_draws=None)


def test_intervals_are_quantiles_over_draws(logistic, rows):
    model, eta = logistic
    found = model.predict_interval(rows[0], level=0.8)
    assert found.shape == (120, 2, 2)
    np.testing.assert_allclose(found[:, 1].T, np.quantile(expit(eta), [0.1, 0.9], axis=0), rtol=1e-9)
    np.testing.assert_allclose(found[:, 0].T, np.quantile(expit(-eta), [0.1, 0.9], axis=0), rtol=1e-9)
    with pytest.raises(ValueError, match=r"`level` is 1\.5"):
        model.predict_interval(rows[0], level=1.5)


@pytest.mark.parametrize(
    "model",
    [
        vg.SoftmaxClassifier(),
        vg.SoftmaxClassifier(inference="gibbs", **SHORT),
        vg.MultimodalSoftmaxClassifier(subclasses=[1, 2], n_init=2, n_vb=1, random_state=1),
        vg.HierarchicalMixtureOfExpertsClassifier(experts=2, inference="gibbs", **SHORT),
        vg.MixtureOfExpertsClassifier(experts=2, inference="gibbs", **SHORT),
        vg.MixtureOfExpertsClassifier(experts=2, inference="vb", n_init=1, random_state=1),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.inference}",
)
def test_every_classifier_says_how_sure_it_is(model, rows):
    X, y = rows
    model.fit(X, y)
    p = model.predict_proba(X, "mc" if "mc" in model._model.methods else None)
    sd, wide, narrow = model.predict_proba_std(X), model.predict_interval(X), model.predict_interval(X, level=0.5)
    assert wide.shape == narrow.shape == (120, 2, 2)
    assert ((wide[..., 0] <= narrow[..., 0]) & (narrow[..., 1] <= wide[..., 1])).all()
    assert ((wide >= 0) & (wide <= 1)).all()
    assert ((wide[..., 0] < p) & (p < wide[..., 1])).mean() > 0.95
    # an interval of 90 % is about 3.3 standard deviations wide, narrower where a bound of 0 or 1 is near
    assert 0.5 < np.median((wide[..., 1] - wide[..., 0]) / (3.29 * sd)) < 1.3
    # of a row alone, and of fewer draws
    np.testing.assert_array_equal(model.predict_interval(X[7:8]), wide[7:8])
    fewer = model.set_params(predict_draws=50).predict_interval(X)
    assert not np.array_equal(fewer, wide)
    assert abs(fewer - wide).mean() < 0.1


def test_intervals_of_real_outcomes_are_quantiles(rows):
    X, _ = rows
    y = X[:, 0] + 0.1 * np.sin(9 * X[:, 1])
    for model in (
        vg.MixtureOfExpertsRegressor(experts=1),
        vg.MixtureOfExpertsRegressor(experts=2, inference="gibbs", **SHORT),
    ):
        model.fit(X, y)
        found = model.predict_interval(X, level=0.8)
        quantiles = model.predict_dist(X, quantiles=(0.1, 0.9)).quantiles
        np.testing.assert_allclose(found.T, list(quantiles.values()), rtol=1e-12)
        with pytest.raises(ValueError, match="level"):
            model.predict_interval(X, level=0)
    # the last has draws to choose from
    few = model.set_params(predict_draws=10).predict(X)
    assert 0 < abs(few - model.set_params(predict_draws="all").predict(X)).max() < 0.2


def test_log_likelihoods_are_those_of_the_draws(logistic, rows):
    az = pytest.importorskip("arviz", reason="ArviZ is not installed")
    model, eta = logistic
    X, y = rows
    data = model.to_arviz(X, y)
    ln = data["log_likelihood"]["y"]
    assert ln.dims == ("chain", "draw", "row")
    expected = log_expit(np.where(y == 1, eta, -eta))
    np.testing.assert_allclose(ln.values.reshape(-1, 120), expected, rtol=1e-9)
    loo = az.loo(data, pointwise=True)
    # without a tail to speak of, leaving a row out weights draws by the inverse of its likelihood
    by_hand = -np.log(np.exp(-expected).mean(axis=0))
    np.testing.assert_allclose(loo.loo_i.values, by_hand, atol=0.02)
    assert loo.elpd_loo == pytest.approx(by_hand.sum(), abs=0.2)
    with pytest.raises(ValueError, match="both"):
        model.to_arviz(X)
    with pytest.raises(ValueError, match="not one of the classes"):
        model.to_arviz(X, y + 1)
    assert "log_likelihood" not in model.to_arviz()


@pytest.mark.parametrize(
    "model",
    [
        vg.SoftmaxClassifier(inference="gibbs", **SHORT),
        vg.MultimodalSoftmaxClassifier(subclasses=[1, 2], inference="gibbs", **SHORT),
        vg.MixtureOfExpertsClassifier(experts=2, inference="gibbs", **SHORT),
        vg.MixtureOfExpertsRegressor(experts=2, inference="gibbs", **SHORT),
    ],
    ids=lambda m: type(m).__name__,
)
def test_log_likelihoods_of_every_sampler(model, rows):
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    X, y = rows
    real = isinstance(model, vg.MixtureOfExpertsRegressor)
    y = X[:, 0] + 0.2 * X[:, 1] ** 2 if real else np.array(["no", "yes"])[y]
    model.fit(X, y)
    data = model.to_arviz(X, y)
    ln = data["log_likelihood"]["y"].values
    # what each sweep has computed of all its rows
    np.testing.assert_allclose(ln.sum(axis=2), data["sample_stats"]["total_log_likelihood"].values, rtol=1e-6)
    # and averaged over draws it is what is predicted
    mean = np.exp(ln).mean(axis=(0, 1))
    model.set_params(predict_draws="all")
    said = np.exp(model.log_density(X, y)) if real else model.predict_proba(X)[np.arange(120), (y == "yes").astype(int)]
    np.testing.assert_allclose(mean, said, rtol=1e-8)


def test_rows_with_hidden_coordinates_have_no_closed_form(rows):
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    short = {"n_chains": 1, "n_warmup": 3, "n_draws": 4, "random_state": 1}
    for model in (vg.SharedFactorModel(likelihood="gaussian", **short), vg.LatentFeatureModel(**short)):
        with pytest.raises(ValueError, match="closed form.*held_out"):
            model.fit(rows[0]).to_arviz(rows[0])
