"""Sets of labels: the estimator as a user meets it."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from variegate import MultiLabelMixtureClassifier, load_run

SHORT = {"components": 4, "n_init": 2, "max_iter": 30, "random_state": 1}


@pytest.fixture(scope="module")
def rows():
    """Two kinds of rows with labels of their own, and one label that follows from a column."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 3)) + 3 * kind[:, None] * np.array([1.0, 0.0, 0.0])
    Y = np.c_[kind, 1 - kind, X[:, 2] > 0].astype(int)
    return X, Y


def test_labels_are_predicted(rows):
    X, Y = rows
    model = MultiLabelMixtureClassifier(**SHORT).fit(X[:150], Y[:150])
    assert model.classes_.tolist() == [0, 1, 2]
    P = model.predict_proba(X[150:])
    assert P.shape == (50, 3)
    assert ((P >= 0) & (P <= 1)).all()
    assert (model.predict(X[150:]) == Y[150:]).mean() > 0.85
    np.testing.assert_array_equal(model.predict(X[150:]), (P >= 0.5).astype(int))
    np.testing.assert_array_equal(model.decision_function(X), model.predict_proba(X))
    scores = model.label_scores(X[150:], Y[150:])
    assert scores["hamming_loss"] == pytest.approx((model.predict(X[150:]) != Y[150:]).mean())
    assert model.score(X[150:], Y[150:]) == pytest.approx(scores["subset_accuracy"])
    assert np.diff(model.elbo_trace_).min() > -1e-6
    assert model.bound_ == model.elbo_trace_[-1]
    shares = model.transform(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares.shape[1] == len(model.weights_) + 1 == len(model.component_names_)
    assert model.novelty(np.full((1, 3), 1e3))[0] > model.novelty(X).max()
    # what is said of a row depends on that row alone
    np.testing.assert_array_equal(model.predict_proba(X[7:8]), model.predict_proba(X)[7:8])


def test_forms_of_labels_agree(rows):
    X, Y = rows
    whole = MultiLabelMixtureClassifier(**SHORT).fit(X, Y).predict_proba(X)
    for other in (Y.astype(bool), Y.astype(float), sparse.csr_array(Y)):
        np.testing.assert_array_equal(MultiLabelMixtureClassifier(**SHORT).fit(X, other).predict_proba(X), whole)
    names = np.array(["cold", "hot", "wet"])
    sets = [set(names[row == 1]) for row in Y]
    model = MultiLabelMixtureClassifier(**SHORT).fit(X, sets)
    assert model.classes_.tolist() == ["cold", "hot", "wet"]
    np.testing.assert_array_equal(model.predict_proba(X), whole)
    assert model.predict_sets(X[:1]) == [tuple(names[model.predict(X[:1])[0] == 1])]


def test_unknown_labels_are_not_absent_ones(rows):
    X, Y = rows
    unknown = Y.astype(float)
    unknown[::2, 2] = np.nan
    model = MultiLabelMixtureClassifier(**SHORT).fit(X, unknown)
    absent = MultiLabelMixtureClassifier(**SHORT).fit(X, np.nan_to_num(unknown))
    assert model.predict_proba(X)[:, 2].mean() > absent.predict_proba(X)[:, 2].mean() + 0.1
    minus = np.where(np.isnan(unknown), -1, unknown)
    again = MultiLabelMixtureClassifier(**SHORT).fit(X, minus)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert model.label_scores(X, unknown)["known_rows"] == 100


@pytest.mark.parametrize(
    "settings",
    [
        {"coupling": "and"},
        {"coupling": "cut"},
        {"coupling": "cut", "classifier": "svm"},
        {"coupling": "cut", "label_patterns": "multinomial", "combine": "product"},
        {"bound": "bohning"},
        {"covariance": "diagonal"},
        {"features": "gaussian-full", "feature_power": None},
    ],
)
def test_couplings_and_bounds(rows, settings):
    X, Y = rows
    model = MultiLabelMixtureClassifier(**SHORT | settings).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.8
    assert np.diff(model.elbo_trace_).min() > -1e-6
    assert clone(model).get_params() == model.get_params()


def test_counts_dense_and_sparse_are_the_same():
    rng = np.random.default_rng(1)
    X = rng.poisson(np.where(np.arange(120)[:, None] % 2, [3, 1, 0.2, 0.2], [0.2, 0.2, 1, 3]))
    Y = np.c_[np.arange(120) % 2, rng.integers(0, 2, 120)]
    dense = MultiLabelMixtureClassifier(scaling="unit-rows", **SHORT).fit(X.astype(float), Y)
    thin = MultiLabelMixtureClassifier(scaling="unit-rows", **SHORT).fit(sparse.csr_array(X.astype(float)), Y)
    np.testing.assert_allclose(dense.predict_proba(X), thin.predict_proba(sparse.csr_array(X)), atol=1e-9)
    assert dense.summary().to_dict()["facts"]["features"] == "multinomial"


def test_rules_suit_their_scores(rows):
    X, Y = rows
    model = MultiLabelMixtureClassifier(**SHORT).fit(X, Y)
    for rule in ("hamming", "micro-f1", "subset", "cardinality"):
        assert set(np.unique(model.predict(X, rule=rule))) <= {0, 1}
    assert model.predict(X, rule="subset", nonempty=True).any(axis=1).all()
    with pytest.raises(ValueError, match="rule"):
        model.predict(X, rule="f2")
    known = np.full((1, 3), np.nan)
    known[0, 0] = 1
    assert model.predict_proba(X[:1], given=known)[0, 1] <= model.predict_proba(X[:1])[0, 1] + 1e-9


def test_a_run_is_opened_again(rows, tmp_path):
    X, Y = rows
    model = MultiLabelMixtureClassifier(out=tmp_path / "run", **SHORT).fit(X, Y)
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is MultiLabelMixtureClassifier
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.classes_.tolist() == model.classes_.tolist()


def test_errors_say_what_to_do(rows):
    X, Y = rows
    with pytest.raises(ValueError, match="no negative numbers"):
        MultiLabelMixtureClassifier(features="multinomial").fit(X, Y)
    with pytest.raises(ValueError, match="no row has a known label"):
        MultiLabelMixtureClassifier().fit(X, np.full(Y.shape, np.nan))
    with pytest.raises(ValueError, match="y"):
        MultiLabelMixtureClassifier().fit(X)
    with pytest.raises(ValueError, match="rows"):
        MultiLabelMixtureClassifier().fit(X, Y[:10])


def test_further_rows_and_labels_are_learned_from():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(900, 3))
    Y = (X + 0.5 * rng.normal(size=X.shape) > 0).astype(float)
    model = MultiLabelMixtureClassifier(inference="svi", components=4, random_state=1)
    model.partial_fit(X[:300], Y[:300, :2])
    assert model.classes_.tolist() == [0, 1]
    assert model.mean_log_probability_ < 0
    assert not hasattr(model, "bound_")
    with pytest.warns(UserWarning, match="1 label"):
        model.partial_fit(X[300:700], Y[300:700])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.label_scores(X[700:], Y[700:])["hamming_loss"] < 0.3
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X[700:], Y[700:])
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    # what no set holds is absent, not unknown
    sets = [{label for label in range(2) if row[label]} for row in Y[:200]]
    model.partial_fit(X[:200], sets)
    assert model.classes_.tolist() == [0, 1, 2]
    assert not hasattr(MultiLabelMixtureClassifier(), "partial_fit")
