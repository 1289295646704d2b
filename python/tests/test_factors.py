"""Factors that several sources share."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from variegate import SharedFactorModel, load_run
from variegate._sources import as_array, distinct, encode, is_several, stack

RUN = ["random_state", "threads", "block_rows", "out", "progress"]
SHORT = {"n_warmup": 30, "n_draws": 10, "thin": 2, "random_state": 1}
# a few annealed runs do
EFFORT = {"temperatures": 10, "runs": 5, "draws": 4}


@pytest.fixture
def counts():
    """Two sources of 40 rows: four columns are used by the first alone, four by both, four by the second alone."""
    rng = np.random.default_rng(5)
    factors = np.kron(np.eye(3), np.ones(4))
    weights = rng.gamma(1.0, 5.0, size=(80, 3))
    weights[:40, 2] = weights[40:, 0] = 0.0
    return rng.poisson(weights @ factors + 0.1).astype(float), np.repeat(["early", "late"], 40)


@pytest.fixture
def reals():
    """The same with real numbers."""
    rng = np.random.default_rng(6)
    factors = rng.normal(size=(3, 8))
    weights = rng.normal(size=(80, 3)) * rng.integers(0, 2, size=(80, 3))
    weights[:40, 2] = weights[40:, 0] = 0.0
    return weights @ factors + 0.1 * rng.normal(size=(80, 8)), np.repeat([1, 2], 40)


def test_labels_of_any_type_become_names():
    codes, names = encode(np.array([3, 1, 3]), distinct([3, 1, 3]), 3)
    assert codes.tolist() == [1, 0, 1]
    assert names == ["1", "3"]
    codes, names = encode([("a", 2), "b"], distinct([("a", 2), "b"]), 2)
    assert codes.tolist() == [0, 1]
    assert names == ["('a', 2)", "b"]
    # labels that the fit has not seen follow those that it has, and a name is enough to tell a source
    codes, names = encode([7, 1], ["1", "2"], 2)
    assert codes.tolist() == [2, 0]
    assert names == ["1", "2", "7"]
    assert encode(pd.Series(["x", "y"]), ["y"], 2)[0].tolist() == [1, 0]
    with pytest.raises(ValueError, match="3 labels, but there are 2 rows"):
        encode([1, 2, 3], [], 2)
    with pytest.raises(ValueError, match="both written '1'"):
        encode([1, "1"], [], 2)
    for bad in ([None, 1], [float("nan"), 1.0], np.array([np.nan, 1.0])):
        with pytest.raises(ValueError, match="missing label"):
            distinct(bad)
    with pytest.raises(ValueError, match="hashable"):
        distinct([[1], [2]])


def test_labels_keep_their_type():
    assert as_array([1, 2]).dtype.kind == "i"
    assert as_array(["a", "b"]).dtype.kind == "U"
    mixed = as_array([("a", 1), ("b", 2)])
    assert mixed.shape == (2,)
    assert mixed[1] == ("b", 2)
    assert as_array([1, "a"]).dtype == object


def test_matrices_are_stacked():
    a, b = np.ones((2, 3)), np.zeros((1, 3))
    assert is_several([a, b])
    assert is_several((sparse.csr_array(a), b))
    assert not is_several(a)
    assert not is_several([[1, 2], [3, 4]])
    assert not is_several([])
    X, rows, known = stack([a, b], None)
    assert X.shape == (3, 3)
    assert (rows, known) == ([0, 0, 1], [0, 1])
    X, rows, known = stack([sparse.csr_array(a), b], ["x", "y"])
    assert X.format == "csr"
    assert (rows, known) == (["x", "x", "y"], ["x", "y"])
    # a source without rows is kept, and one source may come in parts
    assert stack([a, b[:0], a], ["x", "y", "x"])[1:] == (["x"] * 4, ["x", "y"])
    frames = [pd.DataFrame(a, columns=list("pqr")), pd.DataFrame(b, columns=list("pqr"))]
    assert list(stack(frames, None)[0].columns) == ["p", "q", "r"]
    with pytest.raises(ValueError, match="names its columns otherwise"):
        stack([frames[0], frames[1][["q", "p", "r"]]], None)
    with pytest.raises(ValueError, match="matrix 2 has 2 columns and the first has 3"):
        stack([a, b[:, :2]], None)
    with pytest.raises(ValueError, match="1 labels, but there are 2 matrices"):
        stack([a, b], ["x"])


def test_finds_what_is_shared(counts):
    X, sources = counts
    model = SharedFactorModel(n_warmup=100, n_draws=30, random_state=3).fit(X, sources=sources)
    assert model.sources_.tolist() == ["early", "late"]
    J, K = 2, model.n_factors_
    assert model.components_.shape == (K, 12)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0, atol=1e-9)
    assert model.sharing_.shape == model.mass_.shape == (J, K)
    assert model.shared_.shape == (J, J)
    assert model.n_factors_draws_.shape == (60,)
    assert model.posterior_["n_factors"].shape == (2, 30)
    # the three factors that there are, each with the sources that use it
    truth = np.kron(np.eye(3), np.full(4, 0.25))
    cosine = truth @ model.components_.T / np.linalg.norm(truth, axis=1)[:, None]
    cosine /= np.linalg.norm(model.components_, axis=1)
    found = cosine.argmax(axis=1)
    assert cosine.max(axis=1).min() > 0.9
    np.testing.assert_array_equal(model.mass_[:, found] > 0.05, [[True, True, False], [False, True, True]])
    assert "early" in str(model.summary())


def test_every_form_of_rows_gives_the_same(counts):
    X, sources = counts
    model = SharedFactorModel(**SHORT)
    plain = clone(model).fit_transform(X, sources=sources)
    for other in (sparse.csr_array(X), sparse.csc_matrix(X), X.astype(int), X.tolist()):
        np.testing.assert_array_equal(clone(model).fit(other, sources=list(sources)).transform(other, sources), plain)
    frame = pd.DataFrame(X, columns=[f"word{j}" for j in range(12)])
    named = clone(model).fit(frame, sources=pd.Series(sources))
    np.testing.assert_array_equal(named.transform(frame, pd.Series(sources)), plain)
    several = clone(model).fit([X[:40], X[40:]], sources=["early", "late"])
    np.testing.assert_array_equal(several.transform([X[:40], X[40:]]), plain)
    np.testing.assert_array_equal(several.transform(X, sources), plain)
    counted = clone(model).fit([X[:40], X[40:]])
    assert counted.sources_.tolist() == [0, 1]
    np.testing.assert_array_equal(counted.transform([X[:40], X[40:]]), plain)
    with pytest.raises(ValueError, match="3 matrices, but 2 sources"):
        counted.transform([X, X, X])


def test_what_is_said_of_a_row_depends_on_that_row_and_its_source(counts):
    X, sources = counts
    model = SharedFactorModel(**SHORT).fit(X, sources=sources)
    whole, some = model.transform(X, sources), [50, 3, 77]
    np.testing.assert_array_equal(model.transform(X[some], sources[some]), whole[some])
    for row in some:
        np.testing.assert_array_equal(model.transform(X[[row]], sources[[row]])[0], whole[row])
        np.testing.assert_array_equal(model.complete(X[[row]], sources[[row]]), model.complete(X, sources)[[row]])
    a = model.held_out(X[some], sources[some], **EFFORT)
    b = model.held_out(X[some[::-1]], sources[some[::-1]], **EFFORT)
    np.testing.assert_array_equal(a.ln_probability, b.ln_probability[::-1])
    # a new source, and no source where there were several, are the same
    np.testing.assert_array_equal(model.transform(X[:3], ["new"] * 3), model.transform(X[:3]))


def test_scores_of_counts(counts):
    X, sources = counts
    train = np.arange(80) % 4 > 0
    model = SharedFactorModel(n_warmup=60, n_draws=20, random_state=1).fit(X[train], sources=sources[train])
    X, sources = X[~train], sources[~train]
    found = model.held_out(X, sources, **EFFORT)
    assert found.ln_probability.shape == found.error.shape == found.effective.shape == (20,)
    assert found.log_ppd == -found.ln_probability.mean()
    assert (found.effective >= 1).all()
    assert np.isfinite(found.joint)
    # the fast measure, which has nothing to do with annealed runs
    assert model.score(X, sources=sources) == -np.log(model.perplexity(X, sources))
    np.testing.assert_array_equal(model.score_samples(X, sources), model.held_out(X, sources).ln_probability)
    completed = model.complete(X, sources)
    np.testing.assert_allclose(completed.sum(axis=1), 1.0, atol=1e-9)
    guessing = X.shape[1]
    assert 1 < model.perplexity(X, sources) < guessing
    assert model.perplexity(X, sources) == model.perplexity(sparse.csr_array(X), sources)
    assert model.perplexity(X, sources) != model.perplexity(X, sources, random_state=1)
    assert np.isnan(model.perplexity(np.zeros((2, 12))))
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="`runs` is"):
            model.held_out(X, runs=bad)


def test_new_rows_of_counts_have_factors_of_their_own(counts):
    """What no factor of the fit explains recurs in the row that has it, and leaves the rest of the row as it was."""
    X, sources = counts
    X = np.hstack([X, np.zeros((len(X), 2))])
    model = SharedFactorModel(**SHORT).fit(X, sources=sources)
    strange = X[:1].copy()
    strange[0, 12] = 60
    plain, odd = model.complete(X[:1], sources[:1])[0], model.complete(strange, sources[:1])[0]
    share = 60 / strange.sum()
    assert 0.7 * share < odd[12] < 1.05 * share
    assert odd[13] < 0.05
    # the other columns keep their shares of what is left, and coordinates are those of the factors of the fit
    assert np.abs(odd[:12] / odd[:12].sum() - plain[:12] / plain[:12].sum()).max() < 0.05
    np.testing.assert_allclose(
        model.transform(strange, sources[:1]), model.transform(X[:1], sources[:1]), rtol=0.2, atol=0.3
    )


def test_finds_rows_that_are_alike(counts):
    X, sources = counts
    model = SharedFactorModel(**SHORT).fit(X, sources=sources)
    rows, similarity = model.retrieve(X[:5], X, k=10, query_sources=sources[:5], sources=sources)
    assert rows.shape == similarity.shape == (5, 10)
    assert (np.diff(similarity, axis=1) <= 0).all()
    every, _ = model.retrieve(X[:5], X, query_sources=sources[:5], sources=sources)
    np.testing.assert_array_equal(every[:, :10], rows)
    np.testing.assert_array_equal(np.sort(every, axis=1), np.tile(np.arange(80), (5, 1)))
    with pytest.raises(ValueError, match="`k` is 0"):
        model.retrieve(X, X, k=0)


def test_real_numbers_and_missing_ones(reals):
    X, sources = reals
    model = SharedFactorModel(likelihood="gaussian", **SHORT).fit(X, sources=sources)
    assert model.sources_.dtype.kind == "i"
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0, atol=1e-9)
    with pytest.raises(ValueError, match="cannot complete rows"):
        model.complete(X, sources)
    holes = X.copy()
    holes[::7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        clone(model).fit(holes, sources=sources)
    filled = clone(model).set_params(missing=True).fit(holes, sources=sources)
    assert np.isfinite(filled.transform(holes, sources)).all()
    assert np.isfinite(filled.score(holes, sources=sources))
    assert filled.score(holes, sources=sources) == filled.held_out(holes, sources).ln_probability.mean()
    holes[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        filled.fit(holes, sources=sources)


def test_settings_are_chosen_by_cross_validation(counts):
    X, _ = counts
    search = GridSearchCV(SharedFactorModel(**SHORT | {"n_chains": 1}), {"mass": [0.5, 2.0]}, cv=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(X) == search.best_estimator_.score(X)


def test_missing_entries_are_imputed(reals):
    X, sources = reals
    holes = X.copy()
    rng = np.random.default_rng(2)
    gaps = rng.uniform(size=X.shape) < 0.1
    holes[gaps] = np.nan
    model = SharedFactorModel(likelihood="gaussian", missing=True, **SHORT | {"n_warmup": 100})
    model.fit(holes, sources=sources)
    filled, std = model.impute(holes, sources, return_std=True)
    np.testing.assert_array_equal(filled[~gaps], X[~gaps])
    np.testing.assert_array_equal(std > 0, gaps)
    np.testing.assert_array_equal(model.impute(holes, sources), filled)
    # three factors and little noise: far nearer than the means of the columns, and as near as it claims
    error = np.sqrt(np.mean((filled - X)[gaps] ** 2))
    assert error < 0.5 * np.std(X)
    assert 0.5 < np.sqrt(np.mean(((filled - X)[gaps] / std[gaps]) ** 2)) < 2.0
    # of a row alone, whatever its company
    np.testing.assert_array_equal(model.impute(holes[5:8], sources[5:8]), filled[5:8])
    with pytest.raises(ValueError, match="fit with `missing`"):
        SharedFactorModel(likelihood="gaussian", **SHORT).fit(X, sources=sources).impute(X, sources)
    with pytest.raises(ValueError, match="cannot impute"):
        SharedFactorModel(**SHORT).fit(np.ones((4, 2))).impute(np.ones((4, 2)))


def test_names_of_columns_can_be_given(counts):
    X, sources = counts
    words = [f"word{j}" for j in range(12)]
    model = SharedFactorModel(**SHORT).fit(sparse.csr_array(X), sources=sources, feature_names=words)
    assert model.feature_names_in_.tolist() == words
    assert all("(word" in name for name in model.summary().rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(X, sources)
    with pytest.raises(ValueError, match="12 columns"):
        clone(model).fit(X, feature_names=words[:3])
    with pytest.raises(ValueError, match="'word0' twice"):
        clone(model).fit(X, feature_names=[*words[:11], "word0"])
    with pytest.raises(ValueError, match="already"):
        clone(model).fit(pd.DataFrame(X, columns=words[::-1]), feature_names=words)
    with pytest.raises(ValueError, match="list of names"):
        clone(model).fit(X, feature_names="abcdefghijkl")
    clone(model).fit(pd.DataFrame(X, columns=words), feature_names=words)


def test_summary_has_every_source():
    rng = np.random.default_rng(1)
    X, sources = rng.poisson(2.0, size=(64, 6)), np.repeat([f"s{j}" for j in range(8)], 8)
    summary = SharedFactorModel(**SHORT).fit(X, sources=sources).summary().to_dict()
    assert set(summary["facts"]["rows of each source"]) == set(sources)
    assert len(summary["tables"]["shared factors"]) == 28
    for row in summary["table"].values():
        assert all(f"P({s})" in row and f"share of {s}" in row for s in sources)


def test_refuses_what_it_cannot_take(counts):
    X, sources = counts
    model = SharedFactorModel(**SHORT)
    bad = X.copy()
    bad[2, 1] = 0.5
    with pytest.raises(ValueError, match=r"row 3, column `x1`.*not a whole number"):
        model.fit(bad, sources=sources)
    with pytest.raises(ValueError, match="negative|Negative"):
        model.fit(-1 - X, sources=sources)
    with pytest.raises(ValueError, match="one label a row"):
        model.fit(X, sources=sources[:3])
    with pytest.raises(ValueError, match="`likelihood` is normal"):
        clone(model).set_params(likelihood="normal").fit(X)
    with pytest.raises(ValueError, match="missing"):
        clone(model).set_params(missing=True).fit(X)  # of counts none may be missing
    with pytest.raises(ValueError, match="cannot predict classes"):
        model.fit(X, sources=sources)._model.predict(X)


def test_one_source_and_none(counts):
    X, _ = counts
    model = SharedFactorModel(**SHORT).fit(X)
    assert len(model.sources_) == 1
    assert model.sharing_.shape[0] == 1
    again = SharedFactorModel(**SHORT).fit(X, y=np.zeros(80), sources=["only"] * 80)
    assert again.sources_.tolist() == ["only"]
    np.testing.assert_array_equal(again.transform(X, ["only"] * 80), model.transform(X))


def test_same_seed_same_bits_on_any_number_of_threads(counts):
    X, sources = counts
    model = SharedFactorModel(block_rows=7, **SHORT)
    first = clone(model).set_params(threads=1).fit(X, sources=sources)
    for threads in (1, 2, 4):
        again = clone(model).set_params(threads=threads).fit(X, sources=sources)
        for name, array in first._model.arrays().items():
            np.testing.assert_array_equal(array, again._model.arrays()[name], err_msg=name)
        np.testing.assert_array_equal(first.transform(X, sources), again.transform(X, sources))


def test_survives_pickle_and_a_folder(counts, tmp_path):
    X, sources = counts
    frame = pd.DataFrame(X, columns=[f"word{j}" for j in range(12)])
    model = SharedFactorModel(out=tmp_path / "run", **SHORT).fit(frame, sources=sources)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(frame, sources), model.transform(frame, sources))
    assert copy.sources_.tolist() == ["early", "late"]
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is SharedFactorModel
    assert loaded.get_params() == {**model.get_params(), "out": None}
    np.testing.assert_array_equal(loaded.transform(frame, sources), model.transform(frame, sources))
    assert loaded.sources_.tolist() == ["early", "late"]
    with pytest.raises(FileExistsError, match="other data"):
        clone(model).fit(frame, sources=sources[::-1])


def test_works_inside_scikit_learn(counts, reals):
    X, sources = counts
    model = SharedFactorModel(**SHORT).set_output(transform="pandas")
    frame = model.fit_transform(pd.DataFrame(X, index=range(100, 180)), sources=sources)
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert frame.index[0] == 100
    assert frame.shape == (80, model.n_factors_)
    with pytest.raises(ValueError, match="input_features"):
        model.get_feature_names_out(["a"])
    pipeline = make_pipeline(FunctionTransformer(np.round), SharedFactorModel(**SHORT))
    pipeline.fit(X, sharedfactormodel__sources=sources)
    assert pipeline.transform(X).shape[0] == 80
    gaussian = make_pipeline(StandardScaler(), SharedFactorModel(likelihood="gaussian", **SHORT))
    assert gaussian.fit_transform(reals[0]).shape[0] == 80


# scikit-learn's data are real numbers, which are no counts
@parametrize_with_checks([SharedFactorModel(likelihood="gaussian", n_chains=2, n_warmup=10, n_draws=5, random_state=1)])
def test_contract(estimator, check):
    check(estimator)
