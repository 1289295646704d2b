"""Mixtures of diverse experts."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import PolynomialFeatures

from variegate import HierarchicalMixtureOfExpertsClassifier, MixtureOfExpertsClassifier, load_run

SHORT = {"n_chains": 2, "n_warmup": 40, "n_draws": 60, "random_state": 1}
ASCENT = {"n_init": 2, "max_iter": 300, "random_state": 1}
WAYS = [
    MixtureOfExpertsClassifier(experts=2, **SHORT),
    MixtureOfExpertsClassifier(experts=2, prior="determinantal", **SHORT),
    MixtureOfExpertsClassifier(experts=2, prior="gaussian", **SHORT),
    MixtureOfExpertsClassifier(experts=2, prior="mutual-angular-1", inference="gibbs", **SHORT),
    MixtureOfExpertsClassifier(experts=2, inference="mh", **SHORT),
    MixtureOfExpertsClassifier(experts=2, inference="vb", **ASCENT),
    MixtureOfExpertsClassifier(experts=2, inference="pr", **ASCENT),
    MixtureOfExpertsClassifier(experts=2, inference="map", **ASCENT),
    MixtureOfExpertsClassifier(experts=2, prior="gaussian", inference="map", **ASCENT),
]
SAMPLERS = ("hmc", "gibbs", "mh")


@pytest.fixture(params=WAYS, ids=lambda e: f"{e.prior}-{e.inference}")
def way(request):
    return clone(request.param)


@pytest.fixture
def crossed():
    """Two classes whose boundary turns where the first column changes sign."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    return X, np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0).astype(int)


def test_every_way_finds_the_crossing(way, crossed):
    X, y = crossed
    way.fit(X, y)
    assert way.score(X, y) > 0.8
    P = way.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    if way.inference == "map":
        for ask in (way.predict_proba_std, way.predict_interval):
            with pytest.raises(ValueError, match="point"):
                ask(X)
    else:
        sd, interval = way.predict_proba_std(X), way.predict_interval(X, level=0.8)
        assert sd.shape == P.shape
        assert (sd >= 0).all()
        assert interval.shape == (*P.shape, 2)
        assert (interval[..., 0] <= interval[..., 1]).all()
    assert way.structure_ == "2 experts"
    assert way.component_names_ == ["expert 1", "expert 2"]
    R = way.responsibilities(X)
    np.testing.assert_allclose(R.sum(axis=1), 1, atol=1e-9)
    assert not np.allclose(R, way.responsibilities(X, y))
    # angles, and what they say in all
    assert way.angles_.shape[1] == way.gate_angles_.shape[1] == 1
    assert ((way.angles_ >= 0) & (way.angles_ <= np.pi)).all()
    assert way.diversity_["experts"]["mean angle"]["mean"] == pytest.approx(np.degrees(way.angles_.mean()), rel=1e-9)
    assert set(way.diversity_) == {"experts"}  # two centred gates are always opposite, which says nothing
    assert "mean angle of experts (°)" in str(way.summary())
    # shares, by label or the largest first
    assert way.shares_.shape == (2,)
    assert way.shares_.sum() == pytest.approx(1)
    assert (way.shares_ > 0.1).all()
    assert "share of rows" in way.summary().tables
    if way.inference == "map":
        np.testing.assert_allclose(way.shares_, way.responsibilities(X, y).mean(axis=0), atol=1e-9)
    if way.inference in SAMPLERS:
        assert way.posterior_["shares"].shape == (2, 60, 2)
        assert (np.diff(way.posterior_["shares"]) <= 0).all()
    if way.inference in SAMPLERS:
        assert way.posterior_["expert_coef"].shape == (2, 60, 2, 1, 3)
        np.testing.assert_array_equal(way.posterior_["angles"].reshape(-1, 1), way.angles_)
        assert way.log_joint_trace_.shape == (2, 100)
        assert way.n_iter_ == 100
        assert not hasattr(way, "coef_")
        assert not hasattr(way, "bound_")
    else:
        assert way.coef_.shape == (2, 1, 3)
        assert way.intercept_.shape == (2, 1)
        assert way.gate_coef_.shape == (2, 3)
        np.testing.assert_allclose(way.gate_coef_.sum(axis=0), 0, atol=1e-9)
        assert way.elbo_trace_.shape == (way.n_iter_,)
        assert not hasattr(way, "posterior_")


def test_rows_that_share_an_expert(way, crossed):
    X, y = crossed
    way.fit(X, y)
    S = way.shared_expert(X[:50])
    assert S.shape == (50, 50)
    np.testing.assert_allclose(S, S.T, atol=1e-12)
    assert ((S >= 0) & (S <= 1 + 1e-9)).all()
    if way.inference == "map":  # one point: shares alone decide
        R = way.responsibilities(X[:50])
        np.testing.assert_allclose(S, R @ R.T, atol=1e-12)
    same = (X[:50, 0] > 0.5)[:, None] & (X[:50, 0] > 0.5)[None]
    other = (X[:50, 0] > 0.5)[:, None] & (X[:50, 0] < -0.5)[None]
    assert S[same].mean() > S[other].mean()


def test_plain_coefficients_give_the_predictions(crossed):
    """At a single point the gates and experts can be multiplied out by hand."""
    X, y = crossed
    model = MixtureOfExpertsClassifier(experts=2, inference="map", **ASCENT).fit(X, y)
    gate = X @ model.gate_coef_.T + model.gate_intercept_
    gate = np.exp(gate - gate.max(axis=1, keepdims=True))
    gate /= gate.sum(axis=1, keepdims=True)
    log_odds = X @ model.coef_[:, 0].T + model.intercept_[:, 0]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], (gate / (1 + np.exp(-log_odds))).sum(axis=1), atol=1e-10)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gate_bound": "bouchard"}, "`gate_bound` is bouchard.*left out unless `inference` is `vb` or `pr`"),
        ({"n_draws": 10, "inference": "map"}, "`n_draws` is 10.*left out unless `inference` is `hmc`"),
        ({"kappa": 1.0, "prior": "gaussian"}, "`kappa` is 1.*left out unless `prior` is mutual-angular"),
        ({"l2": 2.0}, "`l2` is 2.*left out unless `inference` is `map`"),
        ({"class_weight": "heavy"}, "`class_weight` is heavy.*balanced"),
        ({"class_weight": 3}, "`class_weight` is 3.*balanced"),
        ({"input_map": "polynomial:2"}, "`input_map` is 'polynomial:2'.*a transformer or None"),
        ({"experts": "auto:5"}, "`experts` is auto:5.*whole number"),
        ({"experts": 0}, "`experts` is 0"),
        ({"prior": "laplace"}, "`prior` is laplace.*one of gaussian"),
        ({"inference": "guess"}, "`inference` is guess.*one of hmc"),
        ({"prior": "determinantal", "inference": "vb"}, "`inference` is vb.*hmc"),
        ({"tau": 2.0}, "`tau` is 2.*left out unless"),
        ({"kappa": -1.0}, "`kappa` is -1"),
    ],
    ids=str,
)
def test_settings_of_another_way_are_refused(settings, words, crossed):
    with pytest.raises(ValueError, match=words):
        MixtureOfExpertsClassifier(**settings).fit(*crossed)


@pytest.mark.parametrize("experts", [2, 3])
def test_gaussian_weights_by_variational_bayes(experts, crossed, tmp_path):
    """The family fits a tree of softmax nodes then: a bound and shares, no angles."""
    X, y = crossed
    settings = {"experts": experts, "prior": "gaussian", "n_init": 2, "max_iter": 100, "random_state": 1}
    model = MixtureOfExpertsClassifier(inference="vb", out=tmp_path / "run", **settings).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.bound_ == model.elbo_trace_[-1]
    assert model.shares_.sum() == pytest.approx(1)
    assert not hasattr(model, "angles_")
    assert model.predict_proba_std(X).shape == (200, 2)
    S = model.shared_expert(X[:5])
    assert S.shape == (5, 5)
    assert ((S > 0) & (S <= 1 + 1e-9)).all()
    # it is its own kind of run, whatever the posterior is
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is MixtureOfExpertsClassifier
    assert loaded.get_params() == {**model.get_params(), "out": None}
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    # another way leaves nothing of it behind
    model.set_params(inference="map", out=None).fit(X, y)
    assert model.angles_.shape == (1, experts * (experts - 1) // 2)
    assert model.shares_.shape == (experts,)


def test_one_name_is_one_model(crossed):
    """Gaussian weights have the standard deviation that was asked for under every inference; trees learn theirs."""
    X, y = crossed
    gaussian = MixtureOfExpertsClassifier(
        experts=3, prior="gaussian", inference="vb", tau=2.0, n_init=2, random_state=1
    )
    gaussian.fit(X, y)
    given = {"precision": "fixed", "prior_precision": 0.25, "gate_precision": 0.25, "bias_precision": 0.04}
    tree = {"experts": 3, "coding": "logistic", "n_init": 2, "random_state": 1, "max_iter": 1000}
    fixed = HierarchicalMixtureOfExpertsClassifier(**tree, **given).fit(X, y)
    assert fixed.bound_ == pytest.approx(gaussian.bound_, rel=1e-9)
    learned = HierarchicalMixtureOfExpertsClassifier(**tree).fit(X, y)
    assert abs(learned.bound_ - gaussian.bound_) > 0.1
    # so that the words of one model do not name the other
    assert "prior" not in learned.get_params()


def test_idle_experts_are_warned_of():
    """A straight boundary needs one expert: the others are neither counted nor measured."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 6))
    y = (X @ rng.normal(size=6) + rng.logistic(size=400) > 0).astype(int)
    model = MixtureOfExpertsClassifier(experts=4, inference="vb", n_init=2, random_state=1)
    with pytest.warns(UserWarning, match="of 4 experts are idle"):
        model.fit(X, y)
    summary = model.summary()
    assert summary.facts["experts in use"] < 4
    assert summary.converged
    assert "of 4 experts are idle" in summary.warnings[0]
    assert "Warning: " in str(summary)
    assert len(model.shares_) == 4
    used = (model.shares_ >= 2 / 400).sum()
    assert used == summary.facts["experts in use"]
    assert ("mean angle of experts (°)" in summary.rows) == (used > 1)
    assert list(summary.tables["share of rows"]) == [f"expert {k}" for k in (1, 2, 3, 4)]


def test_a_tree_of_softmax_nodes_is_another_estimator(crossed, tmp_path):
    few = {"n_init": 2, "n_vb": 1, "tol": 0.01, "max_iter": 100, "random_state": 1}
    tree = HierarchicalMixtureOfExpertsClassifier(experts="auto:3", out=tmp_path / "run", **few).fit(*crossed)
    assert tree.structure_ == "2 experts"
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is HierarchicalMixtureOfExpertsClassifier
    assert loaded.get_params() == {**tree.get_params(), "out": None}


def test_one_expert_has_no_angles(crossed):
    X, y = crossed
    for settings in ({"inference": "hmc", **SHORT}, {"inference": "map", **ASCENT}):
        model = MixtureOfExpertsClassifier(experts=1, **settings).fit(X, y)
        assert model.angles_.shape[1] == 0
        assert model.diversity_ == {}
        assert model.structure_ == "1 expert"
        np.testing.assert_allclose(model.shared_expert(X[:3]), 1)


def test_same_seed_same_bits_on_any_number_of_threads(way, crossed):
    X, y = crossed
    way.set_params(block_rows=16)
    first = clone(way).set_params(threads=1).fit(X, y)
    again = clone(way).set_params(threads=3).fit(X, y)
    for name, array in first._model.arrays().items():
        np.testing.assert_array_equal(array, again._model.arrays()[name], err_msg=name)


def test_survives_pickle_and_a_folder(way, crossed, tmp_path):
    X, y = crossed
    frame = pd.DataFrame(X, columns=["size", "age", "dose"])
    way.set_params(out=tmp_path / "run").fit(frame, np.array(["no", "yes"])[y])
    assert list(way.feature_names_in_) == ["size", "age", "dose"]
    with pytest.raises(ValueError, match="feature names"):
        way.predict(frame[["age", "size", "dose"]])
    copies = pickle.loads(pickle.dumps(way)), load_run(tmp_path / "run")
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_proba(frame), way.predict_proba(frame))
        np.testing.assert_array_equal(copy.angles_, way.angles_)
        assert copy.diversity_ == way.diversity_
        assert str(copy.summary()) == str(way.summary())
    assert copies[1].get_params() == {**way.get_params(), "out": None}


def test_sparse_rows(way, crossed):
    X, y = crossed
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    way.set_params(scale="standard")
    dense = clone(way).fit(X, y).predict_proba(X)
    for form in (sparse.csr_matrix, sparse.csc_array):
        P = clone(way).fit(form(X), y).predict_proba(form(X))
        if way.inference in SAMPLERS:  # the last digit decides over a step sooner or later
            assert (P.argmax(axis=1) == dense.argmax(axis=1)).mean() > 0.8
        else:
            np.testing.assert_allclose(P, dense, atol=0.01)


def test_weights_are_repeated_rows(crossed):
    X, y = crossed
    weights = np.random.default_rng(1).integers(0, 3, size=len(y))
    settings = {"experts": 1, "inference": "map", "random_state": 1}
    weighted = MixtureOfExpertsClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = MixtureOfExpertsClassifier(**settings).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4, atol=1e-6)


def test_weights_of_classes_are_weights_of_rows(crossed):
    X, y = crossed
    rare = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:20]]
    X, y = X[rare], y[rare]
    settings = {"experts": 2, "inference": "map", "scale": "none", **ASCENT}
    balanced = MixtureOfExpertsClassifier(class_weight="balanced", **settings).fit(X, y)
    share = np.bincount(y) / len(y)
    weights = MixtureOfExpertsClassifier(class_weight=dict(enumerate(0.5 / share)), **settings).fit(X, y)
    rows = MixtureOfExpertsClassifier(**settings).fit(X, y, sample_weight=0.5 / share[y])
    np.testing.assert_allclose(balanced.predict_proba(X), weights.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(balanced.predict_proba(X), rows.predict_proba(X), atol=1e-6)
    assert balanced.predict(X).mean() > MixtureOfExpertsClassifier(**settings).fit(X, y).predict(X).mean()


def test_inputs_can_be_mapped(crossed):
    X, y = crossed
    model = MixtureOfExpertsClassifier(experts=1, inference="map", input_map=PolynomialFeatures(2), **ASCENT).fit(X, y)
    assert model.score(X, y) > 0.9  # the product of two columns tells all
    assert MixtureOfExpertsClassifier(experts=1, inference="map", **ASCENT).fit(X, y).score(X, y) < 0.8
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_three_classes(crossed):
    X, y = crossed
    y = y + (X[:, 2] > 0.5)
    for settings in ({"inference": "hmc", **SHORT}, {"inference": "vb", **ASCENT}, {"inference": "map", **ASCENT}):
        model = MixtureOfExpertsClassifier(experts=2, **settings).fit(X, y)
        assert model.predict_proba(X).shape == (200, 3)
        assert model.score(X, y) > 0.6
    with pytest.raises(ValueError, match="hmc"):
        MixtureOfExpertsClassifier(experts=2, inference="gibbs", **SHORT).fit(X, y)


def test_grid_search_over_processes(crossed):
    """The number of experts and their coupling, chosen by held-out log loss, two fits at a time."""
    X, y = crossed
    search = GridSearchCV(
        MixtureOfExpertsClassifier(inference="map", threads=1, **ASCENT),
        {"experts": [1, 2], "diversity": [1.0, 5.0]},
        cv=2,
        scoring="neg_log_loss",
        n_jobs=2,
    ).fit(X, y)
    assert search.best_params_["experts"] == 2
    assert search.predict(X).shape == y.shape


def test_not_converging_is_a_warning(crossed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning):
            MixtureOfExpertsClassifier(experts=2, **SHORT).fit(*crossed)
