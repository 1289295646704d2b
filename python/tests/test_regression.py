"""Regression by experts: what is particular to it. Its mathematics is tested in Rust."""

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import FEW
from scipy import sparse, stats
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from variegate import MixtureOfExpertsRegressor, load_run


def test_finds_the_bend(bent):
    X, Y = bent
    model = MixtureOfExpertsRegressor(experts="auto:3", **FEW).fit(X, Y[:, 0])
    assert model.structure_ == "2 experts"
    assert model.score(X, Y[:, 0]) > 0.97
    assert model.predict(X).shape == (150,)
    np.testing.assert_allclose(np.sort(model.expert_coef_[:, 0, 0]), [-2, 3], atol=0.1)
    np.testing.assert_allclose(model.expert_intercept_, 0, atol=0.1)
    np.testing.assert_allclose(model.expert_noise_, 0.1, rtol=0.4)
    assert model.gate_coef_.shape == model.gate_coef_sd_.shape == (2, 1)
    assert model.selection_["chosen"].sum() == 1
    assert model.bound_ == model.elbo_trace_[-1]
    assert (np.diff(model.elbo_trace_) > -1e-8).all()
    assert model.component_names_ == ["expert 1", "expert 2"]
    np.testing.assert_allclose(model.shares_.sum(), 1)


def test_distributions_cover_what_comes(bent):
    X, Y = bent
    train, test = slice(0, 100), slice(100, 150)
    model = MixtureOfExpertsRegressor(experts=2, **FEW).fit(X[train], Y[train, 0])
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    dist = model.predict_dist(X[test], quantiles=levels)
    assert list(dist.quantiles) == list(levels)
    Q = np.array([dist.quantiles[level] for level in levels])
    assert (np.diff(Q, axis=0) > 0).all()
    assert (dist.sd > 0).all()
    np.testing.assert_array_equal(dist.mean, model.predict(X[test]))
    # of 50 rows 45 are expected between the outer levels, with a deviation of 2.1; less than 37 once in 10,000 seeds
    inside = ((Q[0] < Y[test, 0]) & (Y[test, 0] < Q[-1])).sum()
    assert inside >= 37
    # the density of the held-out rows beats that of one Gaussian
    single = stats.norm(Y[train, 0].mean(), Y[train, 0].std()).logpdf(Y[test, 0])
    assert model.log_density(X[test], Y[test, 0]).mean() > single.mean() + 1
    with pytest.raises(ValueError, match="quantiles.*between 0 and 1"):
        model.predict_dist(X, quantiles=(0.0, 0.5))
    with pytest.raises(ValueError, match="`method` is guess"):
        model.predict(X, method="guess")
    for method in ("probit", "mc", "map"):
        assert np.isfinite(model.predict(X, method=method)).all()


def test_several_outcomes(bent):
    X, Y = bent
    model = MixtureOfExpertsRegressor(experts=2, **FEW).fit(X, Y)
    assert model.n_outputs_ == 2
    assert model.predict(X).shape == (150, 2)
    assert model.score(X, Y) > 0.9
    assert model.expert_coef_.shape == (2, 2, 1)
    dist = model.predict_dist(X)
    assert dist.sd.shape == dist.quantiles[0.5].shape == (150, 2)
    assert model.log_density(X, Y).shape == (150,)
    one = MixtureOfExpertsRegressor(experts=2, **FEW).fit(X, Y[:, :1])
    assert one.predict(X).shape == (150, 1)
    with pytest.raises(ValueError, match=r"\(150, 2\) are needed"):
        model.log_density(X, Y[:, 0])


def test_outcomes_tell_experts_apart(bent):
    X, Y = bent
    model = MixtureOfExpertsRegressor(experts=2, **FEW).fit(X, Y[:, 0])
    R, given = model.responsibilities(X), model.responsibilities(X, Y[:, 0])
    assert R.shape == given.shape == (150, 2)
    np.testing.assert_allclose(given.sum(axis=1), 1, atol=1e-12)
    near = np.abs(X[:, 0]) < 0.4
    assert given[near].max(axis=1).mean() > R[near].max(axis=1).mean()


def test_trees_and_maps(bent):
    X, Y = bent
    tree = MixtureOfExpertsRegressor(gates=["expert", ["expert", "expert"]], **FEW).fit(X, Y[:, 0])
    assert tree.structure_ == "(e (e e))"
    assert tree.score(X, Y[:, 0]) > 0.97
    with pytest.raises(ValueError, match="`gates` is given.*left out where `experts`"):
        MixtureOfExpertsRegressor(experts=2, gates=[2, 2]).fit(X, Y[:, 0])
    one = MixtureOfExpertsRegressor(experts=1, **FEW).fit(X, Y[:, 0])
    assert one.gate_coef_.shape[0] == 0
    for square in ("polynomial:2", PolynomialFeatures(2, include_bias=False)):
        model = MixtureOfExpertsRegressor(experts=1, input_map=square, **FEW).fit(X, Y[:, 0])
        assert model.score(X, Y[:, 0]) > one.score(X, Y[:, 0]) + 0.2


def test_units_of_outcomes_do_not_matter(bent):
    X, Y = bent
    a = MixtureOfExpertsRegressor(experts=2, **FEW).fit(X, Y[:, 0])
    b = MixtureOfExpertsRegressor(experts=2, **FEW).fit(X, 1000 * Y[:, 0] + 7)
    np.testing.assert_allclose(b.predict(X), 1000 * a.predict(X) + 7, rtol=1e-4)
    np.testing.assert_allclose(b.predict_dist(X).sd, 1000 * a.predict_dist(X).sd, rtol=1e-3)
    np.testing.assert_allclose(
        b.log_density(X, 1000 * Y[:, 0] + 7), a.log_density(X, Y[:, 0]) - np.log(1000), atol=1e-2
    )


def test_weights_sparse_rows_and_repeats(bent):
    X, Y = bent
    model = MixtureOfExpertsRegressor(experts=2, **FEW)
    weights = np.where(X[:, 0] < 0, 0.0, 1.0)
    half = model.fit(X, Y[:, 0], sample_weight=weights)
    assert half.predict([[1.0]])[0] == pytest.approx(3, abs=0.2)
    dense = model.fit(X, Y[:, 0]).predict(X)
    np.testing.assert_allclose(model.fit(sparse.csr_matrix(X), Y[:, 0]).predict(sparse.csr_matrix(X)), dense, atol=1e-3)
    for bad in (np.nan, np.inf):
        y = Y[:, 0].copy()
        y[3] = bad
        with pytest.raises(ValueError, match="NaN|infinity"):
            model.fit(X, y)


def test_works_inside_scikit_learn(bent):
    X, Y = bent
    pipeline = make_pipeline(StandardScaler(), MixtureOfExpertsRegressor(experts=2, **FEW))
    assert cross_val_score(pipeline, X, Y[:, 0], cv=2).mean() > 0.9
    search = GridSearchCV(pipeline, {"mixtureofexpertsregressor__experts": [1, 2]}, cv=2).fit(X, Y[:, 0])
    assert search.best_params_ == {"mixtureofexpertsregressor__experts": 2}


@pytest.mark.parametrize("outputs", [1, 2])
def test_runs_and_pickles(bent, tmp_path, outputs):
    X, Y = bent
    y = Y[:, 0] if outputs == 1 else Y
    frame = pd.DataFrame(X, columns=["size"])
    model = MixtureOfExpertsRegressor(experts="auto:2", **FEW, out=tmp_path / "run").fit(frame, y)
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is MixtureOfExpertsRegressor
    assert loaded.get_params() == {**model.get_params(), "out": None}
    assert list(loaded.feature_names_in_) == ["size"]
    copy = pickle.loads(pickle.dumps(model))
    for other in (loaded, copy):
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(other.log_density(frame, y), model.log_density(frame, y))
        pd.testing.assert_frame_equal(other.selection_, model.selection_)
        assert str(other.summary()) == str(model.summary())


def test_constant_outcomes_and_few_rows():
    X = np.arange(6.0)[:, None]
    model = MixtureOfExpertsRegressor(experts=1, **FEW).fit(X, np.full(6, 4.0))
    np.testing.assert_allclose(model.predict(X), 4.0, atol=1e-6)
    assert np.isfinite(model.predict_dist(X).quantiles[0.95]).all()
    model = MixtureOfExpertsRegressor(experts="auto:3", **FEW).fit(X[:2], [1.0, 2.0])
    assert np.isfinite(model.predict(X)).all()
