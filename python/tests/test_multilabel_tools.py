"""Sets of labels: their scores beside those of scikit-learn, names of labels, and the tools around them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    hamming_loss,
    label_ranking_average_precision_score,
    log_loss,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from variegate import MultiLabelMixtureClassifier, load_run

FEW = {"components": 5, "n_init": 1, "max_iter": 60, "random_state": 1}
NAMES = ["sea", "sun", "town"]


def scenes(n, seed):
    """Rows of two groups, and three labels that depend on the group and on the row."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, size=n)
    X = rng.normal(size=(n, 4)) + 3 * group[:, None]
    odds = np.c_[4 * group - 2, X[:, 1] - 1.5, 2 - 4 * group + X[:, 2] - 1.5]
    return X, (rng.random((n, 3)) < 1 / (1 + np.exp(-2 * odds))).astype(int)


@pytest.fixture(scope="module")
def data():
    return scenes(300, 0)


@pytest.fixture(scope="module")
def fitted(data):
    """A fit that no test changes."""
    return MultiLabelMixtureClassifier(**FEW).fit(*data)


@pytest.fixture(scope="module")
def new():
    return scenes(150, 1)


def test_predictions_have_the_forms_of_scikit_learn(fitted, new):
    X, Y = new
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    chosen, p = fitted.predict(X), fitted.predict_proba(X)
    assert chosen.shape == p.shape == fitted.decision_function(X).shape == Y.shape
    assert chosen.dtype == np.int64
    np.testing.assert_array_equal(chosen, p >= 0.5)
    assert ((p >= 0) & (p <= 1)).all()
    assert fitted.novelty(X).shape == (150,)
    far = fitted.novelty(X + 50).mean()
    assert far > fitted.novelty(X).mean()
    assert hamming_loss(Y, chosen) < 0.25


def test_scores_are_those_of_scikit_learn(fitted, new):
    X, Y = new
    chosen, p = fitted.predict(X), fitted.predict_proba(X)
    found = fitted.label_scores(X, Y)
    expected = {
        "hamming_loss": hamming_loss(Y, chosen),
        "subset_accuracy": accuracy_score(Y, chosen),
        "micro_f1": f1_score(Y, chosen, average="micro"),
        "macro_f1": f1_score(Y, chosen, average="macro"),
        "example_f1": f1_score(Y, chosen, average="samples", zero_division=1),
        "average_precision": label_ranking_average_precision_score(Y, fitted.decision_function(X)),
        "log_loss": log_loss(Y.ravel(), p.ravel()),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name
    assert fitted.score(X, Y) == pytest.approx(expected["subset_accuracy"])
    weights = np.arange(150.0)
    assert fitted.score(X, Y, weights) == pytest.approx(accuracy_score(Y, chosen, sample_weight=weights))
    assert (found["rows"], found["known_rows"], found["known_entries"]) == (150, 150, 450)


def test_unknown_entries_leave_scores(fitted, new):
    X, Y = new
    part = Y.astype(float)
    part[::2, 0] = np.nan
    found = fitted.label_scores(X, part)
    assert (found["known_rows"], found["known_entries"]) == (75, 375)
    assert found["subset_accuracy"] == pytest.approx(fitted.score(X[1::2], Y[1::2]))
    assert fitted.score(X, part) == pytest.approx(found["subset_accuracy"])
    none = fitted.label_scores(X[::2], part[::2])
    assert none["subset_accuracy"] is None
    assert none["hamming_loss"] is not None
    with pytest.raises(ValueError, match="no row whose labels are all known"):
        fitted.score(X[::2], part[::2])


def test_rules(fitted, new):
    X, Y = new
    p = fitted.predict_proba(X)
    top = fitted.predict(X, rule="cardinality").sum(axis=1)
    np.testing.assert_array_equal(top, np.floor(p.sum(axis=1) + 0.5))
    best = fitted.label_scores(X, Y, rule="micro-f1")["micro_f1"]
    assert best > fitted.label_scores(X, Y, rule="hamming")["micro_f1"] - 0.02
    assert (fitted.predict(X, rule="subset", nonempty=True).sum(axis=1) > 0).all()
    chosen = clone(fitted).set_params(rule="micro-f1", nonempty=True).fit(*scenes(300, 0))
    np.testing.assert_array_equal(chosen.predict(X), fitted.predict(X, rule="micro-f1", nonempty=True))
    with pytest.raises(ValueError, match="`rule` is f2"):
        fitted.predict(X, rule="f2")


def test_names_of_labels(data, fitted, new):
    X, Y = data
    model = MultiLabelMixtureClassifier(**FEW).fit(X, pd.DataFrame(Y, columns=NAMES))
    assert model.classes_.tolist() == NAMES
    np.testing.assert_array_equal(model.predict_proba(new[0]), fitted.predict_proba(new[0]))
    frame = pd.DataFrame(new[1], columns=NAMES)
    assert model.label_scores(new[0], frame[NAMES[::-1]]) == model.label_scores(new[0], frame)
    sets = model.predict_sets(new[0])
    assert sets[0] == tuple(np.array(NAMES)[model.predict(new[0])[0] == 1])
    named = pd.DataFrame(np.c_[X, Y], columns=[*"abcd", *NAMES])
    other = MultiLabelMixtureClassifier(**FEW).fit(named, target=NAMES)
    assert other.classes_.tolist() == NAMES
    assert other.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(other.predict_proba(named[list("abcd")]), model.predict_proba(X))


def test_known_labels_inform_the_others(fitted, new):
    X, Y = new
    part = np.full(Y.shape, np.nan)
    part[:, 0] = Y[:, 0]
    p, told = fitted.predict_proba(X), fitted.predict_proba(X, given=part)
    assert not np.allclose(p[:, 2], told[:, 2])
    np.testing.assert_array_equal(fitted.predict_proba(X, given=np.full(Y.shape, np.nan)), p)


def test_rows_without_labels_are_used(data, new):
    X, Y = data
    some = Y.astype(float)
    some[50:] = np.nan
    model = MultiLabelMixtureClassifier(**FEW).fit(X, some)
    assert model.label_scores(*new)["hamming_loss"] < 0.3
    sets = [set(np.flatnonzero(row).tolist()) for row in Y[:50]] + [None] * 250
    np.testing.assert_array_equal(
        MultiLabelMixtureClassifier(**FEW).fit(X, sets).predict_proba(new[0]), model.predict_proba(new[0])
    )


def test_groups(fitted, new):
    X, Y = new
    shares = fitted.transform(X)
    assert shares.shape == (150, len(fitted.component_names_))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert fitted.get_feature_names_out().tolist() == fitted.component_names_
    assert not np.allclose(fitted.transform(X, Y), shares)
    assert fitted.label_rates_.shape == fitted.label_patterns_.shape == (len(fitted.weights_), 3)
    share = fitted.weights_ / fitted.weights_.sum()
    assert fitted.label_shifts_.shape == (len(share), 3)
    np.testing.assert_allclose(share @ fitted.label_shifts_, 0, atol=1e-12)
    rates = np.ma.masked_invalid(fitted.label_rates_)
    away = (rates - np.ma.average(rates, weights=share, axis=0)).filled(0)
    np.testing.assert_allclose(fitted.label_dependence_, away.T @ (share[:, None] * away), atol=1e-12)
    assert fitted.component_means_.shape == (len(fitted.weights_), 4)
    assert fitted.coef_.shape == fitted.coef_sd_.shape == (3, 4)
    assert fitted.intercept_.shape == (3,)
    assert fitted.elbo_trace_[-1] == pytest.approx(fitted.bound_)
    assert fitted.n_iter_ == len(fitted.elbo_trace_)


def test_tools_of_scikit_learn(data, new):
    X, Y = data
    model = make_pipeline(StandardScaler(), MultiLabelMixtureClassifier(**FEW)).fit(X, Y)
    assert model.score(*new) > 0.3
    assert len(cross_val_score(MultiLabelMixtureClassifier(**FEW), X, Y, cv=2)) == 2
    assert len(cross_val_score(MultiLabelMixtureClassifier(**FEW), X, Y, cv=2, scoring="f1_micro")) == 2
    search = GridSearchCV(MultiLabelMixtureClassifier(**FEW), {"components": [1, 4]}, cv=2).fit(X, Y)
    assert search.best_params_["components"] in (1, 4)


def test_runs_and_pickles(tmp_path, data, new):
    X, Y = data
    model = MultiLabelMixtureClassifier(out=tmp_path / "run", **FEW).fit(X, pd.DataFrame(Y, columns=NAMES))
    for other in (pickle.loads(pickle.dumps(model)), load_run(tmp_path / "run")):
        assert other.classes_.tolist() == NAMES
        np.testing.assert_array_equal(other.predict_proba(new[0]), model.predict_proba(new[0]))
    numbers = MultiLabelMixtureClassifier(out=tmp_path / "numbers", **FEW).fit(X, Y)
    assert load_run(tmp_path / "numbers").classes_.tolist() == numbers.classes_.tolist() == [0, 1, 2]


def test_what_is_wrong_is_said(data):
    X, Y = data
    model = MultiLabelMixtureClassifier(**FEW)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X)
    with pytest.raises(ValueError, match="2 in row 0"):
        model.fit(X, Y + 1)
    with pytest.raises(ValueError, match="1 dimensions"):
        model.fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="299 rows, but X has 300"):
        model.fit(X, Y[1:])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 3, np.nan, X), Y)
    with pytest.raises(ValueError, match="two labels are both written '1'"):
        model.fit(X[:2], [{"1"}, {1}])
    with pytest.raises(ValueError, match="has no setting|`components` is 0"):
        MultiLabelMixtureClassifier(components=0).fit(X, Y)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="2 columns, but the fit has 3 labels"):
        model.label_scores(X, Y[:, :2])
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])
