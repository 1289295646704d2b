"""Rows that are sums of a few features."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from variegate import LatentFeatureModel, load_run

SHAPES = {
    (0, 0): ("010", "111", "010"),
    (0, 3): ("111", "101", "111"),
    (3, 0): ("100", "110", "111"),
    (3, 3): ("111", "010", "010"),
}
SHORT = {"intercept": "none", "start_sweeps": 40, "n_warmup": 5, "n_draws": 8, "thin": 1, "random_state": 1}


def shapes():
    """Four shapes on a grid of six by six, one a row."""
    out = np.zeros((4, 6, 6))
    for shape, ((top, left), lines) in zip(out, SHAPES.items(), strict=True):
        shape[top : top + 3, left : left + 3] = [[int(dot) for dot in line] for line in lines]
    return out.reshape(4, 36)


def images(n, seed):
    """Images in which each shape is there or not, and their codes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, size=(n, 4))
    return codes @ shapes() + 0.5 * rng.normal(size=(n, 36)), codes


@pytest.fixture(scope="module")
def fitted():
    """A fit to 200 images, which no test changes."""
    X, _ = images(200, 0)
    return LatentFeatureModel(intercept="none", n_warmup=20, n_draws=20, thin=1, random_state=1).fit(X)


@pytest.fixture(scope="module")
def new():
    return images(60, 1)


@pytest.fixture
def few():
    """Few rows of six columns, two features."""
    rng = np.random.default_rng(2)
    return rng.integers(0, 2, size=(40, 2)) @ np.kron(np.eye(2), np.ones(3)) + 0.2 * rng.normal(size=(40, 6))


def found(model):
    """Where each shape is among the features, and how like it that feature is."""
    cosine = shapes() @ model.components_.T / np.linalg.norm(shapes(), axis=1)[:, None]
    cosine /= np.linalg.norm(model.components_, axis=1)
    return cosine.argmax(axis=1), cosine.max(axis=1)


def test_finds_the_shapes(fitted, new):
    X, codes = new
    places, cosine = found(fitted)
    assert len(set(places)) == 4
    assert cosine.min() > 0.95
    assert (fitted.presence_[places] > 0.9).all()
    np.testing.assert_allclose(fitted.usage_[places], 0.5, atol=0.15)
    np.testing.assert_array_equal(fitted.intercept_, np.zeros(36))
    K = fitted.n_components_
    assert fitted.components_.shape == (K, 36)
    assert fitted.usage_.shape == fitted.presence_.shape == (K,)
    assert fitted.n_features_draws_.shape == (40,)
    assert fitted.posterior_["n_features"].shape == fitted.posterior_["noise_variance"].shape == (2, 20)
    assert sum(fitted.n_features_posterior_.values()) == pytest.approx(1.0)
    assert set(fitted.n_features_posterior_) == set(fitted.n_features_draws_.astype(int))
    assert fitted.posterior_["noise_variance"].mean() == pytest.approx(0.25, rel=0.1)
    assert fitted.log_joint_trace_.shape == (2, fitted.n_iter_) == (2, 40)
    assert "feature1" in str(fitted.summary())
    # codes of rows that the fit has not seen
    probability = fitted.transform(X)
    assert probability.shape == (60, K)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert ((probability[:, places] > 0.5) == codes).mean() > 0.95


def test_rows_are_built_from_codes(fitted, new):
    X, codes = new
    truth = codes @ shapes()
    rebuilt = fitted.inverse_transform(fitted.transform(X))
    np.testing.assert_allclose(rebuilt, fitted.intercept_ + fitted.transform(X) @ fitted.components_, atol=1e-9)
    near = fitted.reconstruct(X)
    assert near.shape == rebuilt.shape == X.shape
    # nearer to the truth than the rows are
    for rows in (rebuilt, near):
        assert np.mean((rows - truth) ** 2) < 0.2 * np.mean((X - truth) ** 2)
    with pytest.raises(ValueError, match=r"`codes` has 99 columns, but there are \d+ features"):
        fitted.inverse_transform(np.zeros((2, 99)))
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.inverse_transform(np.full((2, fitted.n_components_), np.nan))


def test_missing_entries_of_new_rows_are_filled_in(fitted, new):
    X = new[0]
    gaps = np.random.default_rng(3).random(X.shape) < 0.5
    holes = np.where(gaps, np.nan, X)
    filled, std = fitted.complete(holes, return_std=True)
    np.testing.assert_array_equal(filled[~gaps], X[~gaps])
    np.testing.assert_array_equal(std > 0, gaps)
    np.testing.assert_array_equal(fitted.complete(holes), filled)
    np.testing.assert_array_equal(fitted.complete(holes[5:8]), filled[5:8])
    # better than the means of the columns, as sure as it says, and never surer than the noise
    error = (filled - X)[gaps]
    assert np.mean(error**2) < 0.8 * np.mean((X - X.mean(axis=0))[gaps] ** 2)
    assert 0.8 < np.sqrt(np.mean((error / std[gaps]) ** 2)) < 1.2
    assert std[gaps].min() > 0.4
    for answer in (fitted.transform, fitted.reconstruct, fitted.score_samples):
        assert np.isfinite(answer(holes)).all()
    with pytest.raises(ValueError, match="infinity"):
        fitted.complete(np.where(gaps, np.inf, X))


def test_scores(fitted, new):
    X, codes = new
    told = fitted.held_out(X, draws=10)
    assert told.ln_probability.shape == told.error.shape == told.effective.shape == (60,)
    assert np.isfinite(told.joint)
    assert told.log_ppd == -told.ln_probability.mean()
    assert fitted.score(X) == fitted.score_samples(X).mean()
    # near the density under the truth, and far above that of noise around the means
    truth = codes @ shapes()
    given_codes = -18 * np.log(2 * np.pi * 0.25) - ((X - truth) ** 2).sum(axis=1) / 0.5 - 4 * np.log(2)
    assert fitted.score(X) == pytest.approx(given_codes.mean(), abs=1.0)
    noise = -18 * np.log(2 * np.pi * X.var()) - 18
    assert fitted.score(X) > noise + 5
    # units count
    scaled = LatentFeatureModel(**SHORT).fit(10 * X)
    assert scaled.score(10 * X) == pytest.approx(LatentFeatureModel(**SHORT).fit(X).score(X) - 36 * np.log(10), abs=0.5)
    for bad in (0, 1.5, True):
        with pytest.raises(ValueError, match="`runs` is"):
            fitted.held_out(X, runs=bad)


def test_finds_rows_that_are_alike(fitted, new):
    X, codes = new
    rows, similarity = fitted.retrieve(X[:5], X, k=3)
    assert rows.shape == similarity.shape == (5, 3)
    assert (np.diff(similarity, axis=1) <= 0).all()
    assert (similarity <= 0).all()
    assert fitted.retrieve(X[:5], X)[0].shape == (5, 60)
    assert (np.abs(codes[rows[:, 0]] - codes[:5]).sum(axis=1) <= 1).all()
    with pytest.raises(ValueError, match="`k` is 0"):
        fitted.retrieve(X, X, k=0)


def test_what_is_said_of_a_row_depends_on_that_row_alone(fitted, new):
    X, some = new[0], [50, 3, 7]
    for answer in (fitted.transform, fitted.reconstruct, fitted.score_samples):
        whole = answer(X)
        np.testing.assert_allclose(answer(X[some]), whole[some], rtol=1e-12)


def test_every_form_of_rows_gives_the_same(few):
    X = np.where(np.abs(few) < 0.3, 0.0, few)
    model = LatentFeatureModel(**SHORT)
    plain = clone(model).fit(X)
    codes = plain.transform(X)
    for other in (X.tolist(), np.asfortranarray(X), pd.DataFrame(X)):
        np.testing.assert_array_equal(clone(model).fit_transform(other), codes)
    # sums run in another order
    thin = clone(model).fit(sparse.csr_array(X))
    np.testing.assert_allclose(thin.components_, plain.components_, atol=1e-6)
    for rows in (sparse.csr_array(X), sparse.csc_matrix(X)):
        np.testing.assert_allclose(thin.transform(rows), codes, atol=1e-6)
        np.testing.assert_allclose(thin.reconstruct(rows), plain.reconstruct(X), atol=1e-6)
        np.testing.assert_allclose(thin.score_samples(rows), plain.score_samples(X), atol=1e-6)


def test_missing_entries_of_a_fit_are_drawn(few):
    gaps = np.random.default_rng(4).random(few.shape) < 0.1
    holes = np.where(gaps, np.nan, few)
    with pytest.raises(ValueError, match=r"contains NaN.*`missing=True`"):
        LatentFeatureModel(**SHORT).fit(holes)
    model = LatentFeatureModel(missing=True, **SHORT).fit(holes)
    filled = model.complete(holes)
    np.testing.assert_array_equal(filled[~gaps], few[~gaps])
    assert np.sqrt(np.mean((filled - few)[gaps] ** 2)) < 0.7 * few.std()
    assert np.isfinite(model.score(holes))
    holes[:, 2] = np.nan
    with pytest.raises(ValueError, match="column x2 has no observed entry"):
        clone(model).fit(holes)


@pytest.mark.parametrize(
    "settings",
    [
        {"prior": "pitman-yor"},
        {"prior": "pitman-yor", "discount": 0.3, "sampler": "rowslice"},
        {"prior": "mutual-angular"},
        {"prior": "mutual-angular", "sampler": "slice", "magnitude": "chi", "kappa": 2.0},
        {"sampler": "rowslice", "start": "empty"},
        {"sampler": "slice", "intercept": "mean", "scale": False},
    ],
    ids=str,
)
def test_every_prior_and_sampler_answers(settings, few):
    given = {name: value for name, value in SHORT.items() if name != "start_sweeps" or "start" not in settings}
    model = LatentFeatureModel(**given | settings).fit(few)
    assert np.isfinite(model.score(few))
    assert model.reconstruct(few).shape == few.shape
    assert model.inverse_transform(model.transform(few)).shape == few.shape
    assert ("discount" in model.posterior_) == (model.prior == "pitman-yor")
    assert ("kappa" in model.posterior_) == (model.prior == "mutual-angular")


def test_rows_of_nothing_have_no_features():
    X = np.zeros((20, 3))
    with pytest.warns(UserWarning, match="no variation"):
        model = LatentFeatureModel(mass=0.01, learn_mass=False, max_features=3, **SHORT).fit(X)
    if model.n_components_ == 0:
        assert model.transform(X).shape == (20, 0)
        assert model.get_feature_names_out().shape == (0,)
        np.testing.assert_array_equal(model.inverse_transform(np.zeros((2, 0))), np.tile(model.intercept_, (2, 1)))
    assert np.isfinite(model.reconstruct(X)).all()
    assert isinstance(str(model.summary()), str)


def odd_rows(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 6))
    if kind == "a row of zeros":
        X[4] = 0
    elif kind == "constant columns":
        X[:, 1], X[:, 4] = 7.0, 0.0
    elif kind == "one row":
        X = X[:1]
    elif kind == "more columns than rows":
        X = rng.normal(size=(5, 40))
    elif kind == "huge":
        X *= 1e150
    elif kind == "tiny":
        X *= 1e-150
    elif kind == "columns of every size":
        X *= 10.0 ** np.arange(-12, 13, 4.0)[:6]
    return X


@pytest.mark.parametrize("prior", ["ibp", "pitman-yor", "mutual-angular"])
@pytest.mark.parametrize(
    "kind",
    [
        "a row of zeros",
        "constant columns",
        "one row",
        "more columns than rows",
        "huge",
        "tiny",
        "columns of every size",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_odd_rows_get_an_answer(kind, prior):
    X = odd_rows(kind)
    model = LatentFeatureModel(prior=prior, max_features=50, **SHORT).fit(X)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.transform(X)).all()
    rebuilt = model.reconstruct(X)
    assert np.isfinite(rebuilt).all()
    assert np.abs(rebuilt).max() < 100 * np.abs(X).max()


def test_refuses_what_does_not_go_together(few):
    for settings, words in [
        ({"prior": "mutual-angular", "sampler": "rowslice"}, "`sampler` is rowslice.*anchored or slice"),
        ({"discount": 0.3}, "`discount` is 0.3.*pitman-yor alone"),
        ({"kappa": 2.0}, "`kappa` is 2.*mutual-angular alone"),
        ({"prior": "pitman-yor", "sampler": "slice", "discount": 0.7}, "`discount` is 0.7.*below 0.5"),
        ({"prior": "poisson"}, "`prior` is poisson"),
        ({"n_draws": 0}, "`n_draws` is 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            LatentFeatureModel(**SHORT | settings).fit(few)
    model = LatentFeatureModel(**SHORT).fit(few)
    with pytest.raises(ValueError, match="5 features, but .* expecting 6 features"):
        model.transform(few[:, :5])
    with pytest.raises(ValueError, match="cannot predict classes"):
        model._model.predict(few)


def test_an_unfitted_model_says_so(few):
    model = LatentFeatureModel(**SHORT)
    for name in ("transform", "inverse_transform", "reconstruct", "complete", "score", "score_samples", "held_out"):
        with pytest.raises(NotFittedError):
            getattr(model, name)(few)
    with pytest.raises(NotFittedError):
        model.retrieve(few, few)
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()


def test_same_seed_same_bits_on_any_number_of_threads(few):
    model = LatentFeatureModel(block_rows=7, **SHORT)
    first = clone(model).set_params(threads=1).fit(few)
    again = clone(model).set_params(threads=3).fit(few)
    for name, array in first._model.arrays().items():
        np.testing.assert_array_equal(array, again._model.arrays()[name], err_msg=name)
    np.testing.assert_array_equal(first.transform(few), again.transform(few))


def test_names_of_columns(few):
    words = ["a", "b", "c", "d", "e", "f"]
    model = LatentFeatureModel(**SHORT).fit(sparse.csr_array(few), feature_names=words)
    assert model.feature_names_in_.tolist() == words
    assert any("(a" in name or "(b" in name or "(c" in name for name in model.summary().rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(few)


def test_survives_pickle_and_a_folder(few, tmp_path):
    frame = pd.DataFrame(few, columns=list("abcdef"))
    model = LatentFeatureModel(out=tmp_path / "run", **SHORT).fit(frame)
    copy, loaded = pickle.loads(pickle.dumps(model)), load_run(tmp_path / "run")
    assert type(loaded) is LatentFeatureModel
    assert loaded.get_params() == {**model.get_params(), "out": None}
    for other in (copy, loaded):
        np.testing.assert_array_equal(other.transform(frame), model.transform(frame))
        np.testing.assert_array_equal(other.components_, model.components_)
        assert other.n_features_posterior_ == model.n_features_posterior_


def test_draws_go_to_arviz(fitted):
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    data = fitted.to_arviz()
    assert data["posterior"]["n_features"].shape == data["sample_stats"]["lp"].shape == (2, 20)
    np.testing.assert_array_equal(data["posterior"]["noise_variance"].values, fitted.posterior_["noise_variance"])


def test_works_inside_scikit_learn(few):
    model = LatentFeatureModel(**SHORT | {"n_chains": 1})
    assert np.isfinite(cross_val_score(model, few, cv=2)).all()
    search = GridSearchCV(model, {"prior": ["ibp", "pitman-yor"]}, cv=2).fit(few)
    assert search.score(few) == search.best_estimator_.score(few)
    frame = clone(model).set_output(transform="pandas").fit_transform(pd.DataFrame(few, index=range(100, 140)))
    assert frame.columns[0] == "feature1"
    assert frame.index[0] == 100
    pipeline = make_pipeline(FunctionTransformer(np.abs), clone(model)).fit(few)
    assert pipeline.inverse_transform(pipeline.transform(few)).shape == few.shape


GAPS = "entries of new rows may be missing: what was observed counts"


@parametrize_with_checks(
    [LatentFeatureModel(start_sweeps=5, n_warmup=3, n_draws=5, thin=1, random_state=1)],
    expected_failed_checks=lambda _: {"check_estimators_nan_inf": GAPS},
)
def test_contract(estimator, check):
    check(estimator)
