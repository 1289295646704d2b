"""Subclasses, experts and trees of experts: what is particular to them. Their mathematics is tested in Rust."""

import builtins
import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import FEW
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from variegate import (
    HierarchicalMixtureOfExpertsClassifier,
    MultimodalSoftmaxClassifier,
    SoftmaxClassifier,
    load_run,
)

ALL = [
    MultimodalSoftmaxClassifier(subclasses="auto:3", **FEW),
    HierarchicalMixtureOfExpertsClassifier(experts="auto:3", **FEW),
    HierarchicalMixtureOfExpertsClassifier(gates=["expert", ["expert", "expert"]], **FEW),
]


@pytest.fixture(params=ALL, ids=lambda e: type(e).__name__)
def tree(request):
    return clone(request.param)


def test_finds_parts_that_one_plane_cannot_separate(tree, two_parts):
    X, y = two_parts
    tree.fit(X, y)
    assert tree.score(X, y) > 0.95
    assert SoftmaxClassifier().fit(X, y).score(X, y) < 0.8
    assert tree.elbo_trace_.shape == (tree.n_iter_,)
    assert (np.diff(tree.elbo_trace_) > -1e-8).all()
    assert tree.bound_ == tree.elbo_trace_[-1]
    assert tree.coef_.shape == tree.coef_sd_.shape == (len(tree.intercept_), 2)
    assert tree.shares_.sum() == pytest.approx(1)
    assert len(tree.component_names_) >= 2


def test_selection_is_a_table_with_the_reason(two_parts):
    X, y = two_parts
    model = MultimodalSoftmaxClassifier(subclasses="all:2", **FEW).fit(X, y)
    table = model.selection_
    assert sorted(table["structure"]) == ["[1,1]", "[1,2]", "[2,1]", "[2,2]"]
    [best] = table.index[table["chosen"]]
    assert table.loc[best, "structure"] == model.structure_ == "[1,2]"
    assert table["elbo-sym"].idxmax() == best
    assert table.loc[best, "elbo"] == pytest.approx(model.bound_)
    assert table["cv"].isna().all()  # not asked for
    assert table.attrs["criterion"] == "elbo-sym"
    assert "[1,2]" in table.attrs["reason"]
    one = SoftmaxClassifier().fit(X, y).selection_
    assert one["chosen"].tolist() == [True]


def test_selection_without_pandas(two_parts, monkeypatch):
    model = MultimodalSoftmaxClassifier(subclasses="all:2", **FEW).fit(*two_parts)
    plain = builtins.__import__

    def without(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    rows = model.selection_
    assert [row["structure"] for row in rows if row["chosen"]] == ["[1,2]"]
    assert np.isnan(rows[0]["cv"])


def test_other_criteria_choose_too(two_parts):
    X, y = two_parts
    model = MultimodalSoftmaxClassifier(subclasses="all:2", criterion="cv", folds=2, **FEW).fit(X, y)
    assert model.selection_.attrs["criterion"] == "cv"
    assert (model.selection_["cv error"] <= 1).all()
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("subclasses", [[1, 2], (1, 2), np.array([1, 2]), "1,2"], ids=str)
def test_numbers_of_subclasses_in_any_form(two_parts, subclasses):
    X, y = two_parts
    model = MultimodalSoftmaxClassifier(subclasses=subclasses, **FEW).fit(X, y)
    assert model.structure_ == "[1,2]"
    assert model.component_names_ == ["0", "1/1", "1/2"]


def test_one_number_is_for_all_classes_and_for_experts(two_parts):
    X, y = two_parts
    assert MultimodalSoftmaxClassifier(subclasses=np.int64(2), **FEW).fit(X, y).structure_ == "[2,2]"
    assert HierarchicalMixtureOfExpertsClassifier(experts=3, **FEW).fit(X, y).structure_ == "3 experts"
    assert HierarchicalMixtureOfExpertsClassifier(**FEW).fit(X, y).structure_ == "((e e) (e e))"
    for gates in ((2, 2), [2, [1, 1]], {"children": [2, 2], "coding": "logistic"}):
        model = HierarchicalMixtureOfExpertsClassifier(gates=gates, **FEW).fit(X, y)
        assert model.structure_ == "((e e) (e e))"
        assert len(model.component_names_) == 8  # of four experts and two classes


def test_responsibilities_are_shares(tree, two_parts):
    X, y = two_parts
    tree.fit(X, y)
    R = tree.responsibilities(X)
    assert R.shape == (200, len(tree.component_names_))
    np.testing.assert_allclose(R.sum(axis=1), 1, atol=1e-12)
    given = tree.responsibilities(X, y)
    np.testing.assert_allclose(given.sum(axis=1), 1, atol=1e-12)
    assert not np.allclose(R, given)
    np.testing.assert_array_equal(tree.responsibilities(X[:1]), R[:1])
    with pytest.raises(ValueError, match="holds 7, which is not one of the classes"):
        tree.responsibilities(X, np.full(200, 7))
    with pytest.raises(ValueError, match=r"shape \(3,\), but there are 200 rows"):
        tree.responsibilities(X, y[:3])


def test_subclasses_of_a_class_are_the_class(two_parts):
    X, y = two_parts
    model = MultimodalSoftmaxClassifier(subclasses=[1, 2], **FEW).fit(X, y)
    R = model.responsibilities(X)
    np.testing.assert_allclose(R[:, 1:].sum(axis=1), model.predict_proba(X)[:, 1], atol=1e-9)
    # a row of the first class has no share in the subclasses of the second
    assert (model.responsibilities(X, y)[y == 0, 1:] == 0).all()
    # and rows on the two sides belong to different subclasses
    sides = model.responsibilities(X[y == 1], y[y == 1])[:, 1:].argmax(axis=1)
    assert len(set(sides[X[y == 1, 0] > 1.5])) == len(set(sides[X[y == 1, 0] < -1.5])) == 1


def test_probabilities_come_with_their_deviations(tree, two_parts):
    X, y = two_parts
    tree.fit(X, y)
    sd = tree.predict_proba_std(X)
    assert sd.shape == (200, 2)
    assert ((sd > 0) & (sd < 0.5)).all()
    np.testing.assert_allclose(sd[:, 0], sd[:, 1], rtol=1e-6, atol=1e-8)  # of two that sum to one
    # far from the data less is known than among them
    assert tree.predict_proba_std([[0.0, 40.0]]).max() > np.median(sd)


def test_penalised_maximum_likelihood(tree, two_parts):
    X, y = two_parts
    # settings of the variational fit are refused, not ignored
    with pytest.raises(ValueError, match="left out where `inference` is `map`"):
        tree.set_params(inference="map", max_iter=7).fit(X, y)
    standard = type(tree)().get_params()
    tree.set_params(**{name: standard[name] for name in ("tol", "max_iter", "n_vb") if name in standard})
    searched = [name for name in ("subclasses", "experts") if getattr(tree, name, None) is not None]
    tree.set_params(**dict.fromkeys(searched, "2"))
    tree.fit(X, y)
    assert tree.score(X, y) > 0.95
    for ask in (tree.predict_proba_std, tree.predict_interval):
        with pytest.raises(ValueError, match="point"):
            ask(X)
    tree.set_params(inference="guess")
    with pytest.raises(ValueError, match="`inference` is guess"):
        tree.fit(X, y)


@pytest.mark.parametrize("structure", [{"experts": 3}, {"gates": [1, 2]}], ids=str)
def test_rows_that_share_an_expert(structure, two_parts):
    X, y = two_parts
    model = HierarchicalMixtureOfExpertsClassifier(**structure, **FEW).fit(X, y)
    S, R = model.shared_expert(X[:30]), model.responsibilities(X[:30])
    experts = R if "experts" in structure else R.reshape(30, 3, 2).sum(axis=2)  # leaves are an expert and a class
    np.testing.assert_allclose(S, experts @ experts.T, atol=1e-12)


def test_draws_from_the_exact_posterior(two_parts):
    X, y = two_parts
    sampling = {"inference": "gibbs", "n_chains": 2, "n_warmup": 30, "n_draws": 60, "random_state": 1}
    plain = SoftmaxClassifier(**sampling).fit(X, y)
    assert plain.posterior_["coef"].shape == (2, 60, 1, 2)
    np.testing.assert_allclose(plain.coef_, plain.posterior_["coef"].mean(axis=(0, 1)), rtol=1e-9)
    assert plain.log_joint_trace_.shape == (2, 90)
    assert not hasattr(plain, "bound_")
    for model in (
        MultimodalSoftmaxClassifier(subclasses=[1, 2], **sampling),
        HierarchicalMixtureOfExpertsClassifier(gates=[2, "expert"], **sampling),
    ):
        model.fit(X, y)
        assert model.score(X, y) > 0.9
        assert model.posterior_["shares"].shape[:2] == (2, 60)
        assert (model.predict_proba_std(X) > 0).all()
        assert not hasattr(model, "component_names_")
        with pytest.raises(ValueError, match="change places between draws"):
            model.responsibilities(X)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_searches_that_need_a_bound_are_refused_without_one(two_parts):
    with pytest.raises(ValueError, match="`subclasses` is auto.*unless `inference` is `vb`"):
        MultimodalSoftmaxClassifier(inference="map").fit(*two_parts)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (MultimodalSoftmaxClassifier, {"subclasses": [1, 2, 3]}, "`subclasses` is 1,2,3.*2 and not 3"),
        (MultimodalSoftmaxClassifier, {"subclasses": "some"}, "`subclasses` is some.*auto"),
        (MultimodalSoftmaxClassifier, {"subclasses": [0, 1]}, "`subclasses` is 0,1"),
        (MultimodalSoftmaxClassifier, {"subclasses": True}, "`subclasses` is true"),
        (MultimodalSoftmaxClassifier, {"subclasses": [[1]]}, "`subclasses` is"),
        (HierarchicalMixtureOfExpertsClassifier, {"experts": "compressive:3"}, "`experts` is compressive:3"),
        (HierarchicalMixtureOfExpertsClassifier, {"experts": 0}, "`experts` is 0"),
        (HierarchicalMixtureOfExpertsClassifier, {"class_weight": "heavy"}, "`class_weight` is heavy.*balanced"),
        (HierarchicalMixtureOfExpertsClassifier, {"input_map": "square"}, "`input_map` is square.*polynomial"),
        (HierarchicalMixtureOfExpertsClassifier, {"covariance": "block:0"}, "`covariance` is block:0"),
        (HierarchicalMixtureOfExpertsClassifier, {"experts": 2, "gates": [2, 2]}, "`gates` is given.*where `experts`"),
        (HierarchicalMixtureOfExpertsClassifier, {"gates": []}, "`gates` is"),
        (HierarchicalMixtureOfExpertsClassifier, {"gates": ["leaf"]}, '`gates` is .*"expert"'),
        (HierarchicalMixtureOfExpertsClassifier, {"gates": {"subclasses": [1, 1, 1]}}, "2 numbers"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(kind, settings, words, two_parts):
    with pytest.raises(ValueError, match=words):
        kind(**settings).fit(*two_parts)


def test_a_list_that_holds_itself_is_refused(two_parts):
    loop = ["expert"]
    loop.append(loop)
    with pytest.raises((ValueError, RecursionError)):
        HierarchicalMixtureOfExpertsClassifier(gates=loop).fit(*two_parts)


def test_weights_of_classes(two_parts):
    X, y = two_parts
    rare = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:10]]
    X, y = X[rare], y[rare]
    # unscaled: weights of rows have a part in the scale of columns, "balanced" has none
    settings = {**FEW, "subclasses": "1,2", "tol": 1e-6, "standardize": False}
    plain, balanced, given = (
        MultimodalSoftmaxClassifier(class_weight=weight, **settings).fit(X, y)
        for weight in (None, "balanced", {0: len(y) / (2 * (y == 0).sum()), 1: len(y) / 20})
    )
    assert balanced.bound_ == pytest.approx(given.bound_, rel=1e-6)
    assert balanced.bound_ != pytest.approx(plain.bound_, rel=1e-3)
    by_hand = SoftmaxClassifier(tol=1e-8).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    by_dict = SoftmaxClassifier(tol=1e-8, class_weight={1: 3.0}).fit(X, y)
    np.testing.assert_allclose(by_hand.coef_, by_dict.coef_, rtol=1e-9)
    both = SoftmaxClassifier(tol=1e-8, class_weight={1: 1.5}).fit(X, y, sample_weight=np.where(y == 1, 2.0, 1.0))
    np.testing.assert_allclose(by_hand.coef_, both.coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="class"):
        SoftmaxClassifier(class_weight={0: 1.0, 5: 2.0}).fit(X, y)
    with pytest.raises(ValueError, match="weight"):
        SoftmaxClassifier(class_weight={0: 1.0, 1: -2.0}).fit(X, y)


class Squares(TransformerMixin, BaseEstimator):
    """A map of one's own, without names of columns."""

    def fit(self, X, y=None):
        self.seen_ = X.shape
        return self

    def transform(self, X):
        return np.hstack([X, X**2])


def test_input_maps_bend_boundaries(two_parts):
    X, y = two_parts
    assert SoftmaxClassifier(input_map="polynomial:2").fit(X, y).score(X, y) > 0.95
    assert SoftmaxClassifier(input_map="none").fit(X, y).score(X, y) < 0.8
    frame = pd.DataFrame(X, columns=["a", "b"])
    for transformer, names in [
        (Squares(), ["x0", "x3"]),
        (make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)), ["a^2", "a b"]),
        (FunctionTransformer(np.abs, validate=True), ["x0", "x1"]),
    ]:
        model = SoftmaxClassifier(input_map=transformer).fit(frame, y)
        assert model.score(frame, y) > 0.95
        assert model.input_map_ is not transformer
        assert not hasattr(transformer, "seen_")  # the user's own object is left alone
        assert model.n_features_in_ == 2
        rows = " ".join(model.summary().rows)
        assert all(name in rows for name in names), rows
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict_proba(frame), model.predict_proba(frame))
        assert model.responsibilities(frame).shape == (200, 2)
    # another fit forgets the map
    model.set_params(input_map=None).fit(X, y)
    assert not hasattr(model, "input_map_")
    assert model.score(X, y) < 0.8


def test_repeated_rows_have_the_objective_of_weights(two_parts):
    """Starts may lead elsewhere, but the best of many find the same maximum."""
    X, y = two_parts
    weights = np.random.default_rng(1).integers(0, 3, size=len(y))
    settings = {"experts": 2, "n_init": 10, "n_vb": 3, "tol": 1e-6, "random_state": 1}
    weighted = HierarchicalMixtureOfExpertsClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = HierarchicalMixtureOfExpertsClassifier(**settings).fit(X.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.bound_ == pytest.approx(repeated.bound_, abs=0.01)


def test_runs_open_as_what_they_are(tree, two_parts, tmp_path):
    X, y = two_parts
    tree.set_params(out=tmp_path / "run", class_weight="balanced").fit(X, y)
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is type(tree)
    assert loaded.get_params() == {**tree.get_params(), "out": None}
    np.testing.assert_array_equal(loaded.predict_proba(X), tree.predict_proba(X))
    pd.testing.assert_frame_equal(loaded.selection_, tree.selection_)
    np.testing.assert_array_equal(loaded.elbo_trace_, tree.elbo_trace_)
    assert loaded.structure_ == tree.structure_


def test_what_was_chosen_survives_pickle(tree, two_parts):
    X, y = two_parts
    tree.fit(X, y)
    copy = pickle.loads(pickle.dumps(tree))
    pd.testing.assert_frame_equal(copy.selection_, tree.selection_)
    np.testing.assert_array_equal(copy.responsibilities(X, y), tree.responsibilities(X, y))
    assert copy.component_names_ == tree.component_names_
