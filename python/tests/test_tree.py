"""Rows grouped into a tree."""

import json
import pickle
import warnings

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from variegate import ClusterTree, load_run

# a small gamma makes for nodes of one component each
SHORT = {"gamma": 0.1, "n_chains": 2, "n_warmup": 150, "n_draws": 100, "thin": 1, "random_state": 1}
CENTRES = np.array([[-9.0, 0.0], [9.0, -3.0], [9.0, 3.0]])


def rows(n, seed):
    """Rows of three groups, two of which lie nearer, and their groups."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % 3
    return CENTRES[groups] + 0.3 * rng.normal(size=(n, 2)), groups


def quietly(model, X):
    """Fit, whatever is said of convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


@pytest.fixture(scope="module")
def fitted():
    return quietly(ClusterTree(depth=2, **SHORT), rows(30, 0)[0])


def test_finds_the_groups(fitted):
    _, groups = rows(30, 0)
    assert fitted.labels_.shape == (30, 2)
    leaves = fitted.labels_[:, 1]
    for group in range(3):
        assert len(set(leaves[groups == group])) == 1
    assert len(set(leaves)) == 3
    assert fitted.leaf_sizes_.sum() == 30
    assert fitted.components_.shape == (fitted.n_components_, 2)
    scores = fitted.tree_scores(rows(30, 0)[0], ["abc"[g] for g in groups])
    assert scores["f_2"]["tree"] == 1.0
    assert scores["aid_ratio"]["tree"] < 1 < scores["aod_ratio"]["tree"]
    assert 0 < fitted.tree_scores(classes=[None, *groups[1:]])["purity"]["mean"] <= 1


def test_the_tree_is_a_sequence_of_nodes(fitted):
    tree = fitted.tree_
    assert [node.id for node in tree] == list(range(len(tree)))
    assert tree[0].parent is None
    assert list(tree[0].rows) == list(range(30))
    for node in tree.nodes[1:]:
        assert tree[node.parent].level == node.level - 1
        assert set(node.rows) <= set(tree[node.parent].rows)
        assert np.all(fitted.labels_[node.rows, node.level - 1] == node.id)
        assert 0 <= node.cohesion <= 1
        assert 0 <= node.support <= 1
        assert node.weights.sum() == pytest.approx(1)
    assert len(tree.level(2)) == len(fitted.leaf_sizes_)
    assert [child.id for child in tree.children(0)] == [node.id for node in tree.level(1)]
    assert fitted.tree_best_.loss is None
    assert "30 rows" in repr(tree)


def test_new_rows(fitted):
    X, groups = rows(12, 1)
    path = fitted.predict(X)
    of_group = [fitted.labels_[group] for group in range(3)]  # the first rows are one of each
    np.testing.assert_array_equal(path, [of_group[g] for g in groups])
    np.testing.assert_array_equal(fitted.predict(X, level=2), path[:, 1])
    far = fitted.predict([[500.0, 500.0]])
    assert far[0, 1] == -1
    proba = fitted.predict_proba(X, 2)
    assert proba.shape == (12, len(fitted.tree_.level(2)) + 1)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.max(axis=1) > 0.9).all()
    np.testing.assert_array_equal(fitted.predict_proba(X[3:4], 2)[0], proba[3])
    shares = fitted.responsibilities(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert fitted.score(X) > fitted.score(X + 4)
    assert fitted.held_out(X, draws=10).error.shape == (12,)
    gaps = X.copy()
    gaps[0, 1] = np.nan
    assert fitted.predict(gaps)[0, 0] == path[0, 0]


def test_nodes_have_weights(fitted):
    weights = fitted.node_weights_
    assert weights.shape == (len(fitted.tree_), fitted.n_components_ + 2)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    without = quietly(ClusterTree(depth=2, **SHORT, node_sweeps=0), rows(30, 0)[0])
    assert not hasattr(without, "node_weights_")
    np.testing.assert_array_equal(without.log_joint_trace_, fitted.log_joint_trace_)
    np.testing.assert_array_equal(without.labels_, fitted.labels_)
    X = rows(12, 1)[0]
    np.testing.assert_array_equal(without.predict(X), fitted.predict(X))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X, 2), fitted.predict_proba(X, 2))


def test_begins_with_labels(tmp_path):
    X, groups = rows(30, 0)
    short = SHORT | {"n_warmup": 0, "n_draws": 3, "node_sweeps": 0}
    names = np.array(["a", "b", "c"], dtype=object)[groups]
    names[4] = None

    def quick(start_labels, depth=2, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ClusterTree(depth=depth, **short, **settings).fit(X, start_labels=start_labels)

    one = quick(names)
    assert one.start == "sequential"
    same = quick(np.array([1.0, 2.0, 3.0])[groups])  # other names
    levels = np.column_stack([np.array(["u", "v", "v"], dtype=object)[groups], groups])
    levels[4] = np.nan
    deep = quick(levels, start="labels")
    paths = ["" if i == 4 else f"{a}/{b}" for i, (a, b) in enumerate(levels)]
    np.testing.assert_array_equal(quick(paths).log_joint_trace_, deep.log_joint_trace_)
    traces = {fit.log_joint_trace_.tobytes() for fit in (one, same, deep, quick(None))}
    assert len(traces) == 4
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["x", "y"]).assign(begin=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = ClusterTree(depth=2, **short, out=tmp_path / "run").fit(frame, start_labels="begin")
    np.testing.assert_array_equal(named.log_joint_trace_, one.log_joint_trace_)
    assert list(named.feature_names_in_) == ["x", "y"]
    assert load_run(tmp_path / "run").start == "labels"
    with pytest.raises(ValueError, match="`start_labels` have 29 rows"):
        quick(names[:29])
    with pytest.raises(ValueError, match="leave one of them out"):
        quick(names, start="ward")
    with pytest.raises(ValueError, match="there are none"):
        quick(None, start="labels")
    with pytest.raises(ValueError, match="at most 1 levels"):
        quick(levels, depth=1)
    with pytest.raises(ValueError, match="2 levels"):
        quick(["a/b/c"] * 30)


def test_co_occurrence(fitted):
    one, two = fitted.co_occurrence_(1), fitted.co_occurrence_(2)
    np.testing.assert_array_equal(np.diag(one), 1)
    np.testing.assert_array_equal(one, one.T)
    assert (two <= one + 1e-12).all()
    with pytest.raises(ValueError, match="level"):
        fitted.co_occurrence_(3)


def test_writes_the_tree(fitted):
    names = [f"row {i}" for i in range(30)]
    newick = fitted.to_newick(names)
    assert newick.strip().endswith(";")
    assert newick.count("'row ") == 30
    assert fitted.to_json(names)["names"] == names
    json.dumps(fitted.to_json())
    assert fitted.to_dot().startswith("digraph")
    assert fitted.to_svg(merge=True).startswith("<svg")
    linkage = fitted.to_linkage()
    assert is_valid_linkage(linkage)
    leaves = fcluster(linkage, 1, criterion="distance")
    assert (
        len(set(zip(leaves, fitted.labels_[:, 1], strict=True))) == len(set(leaves)) == len(set(fitted.labels_[:, 1]))
    )
    with pytest.raises(ValueError, match="names of rows"):
        fitted.to_newick(["a"])


def test_plots(fitted):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = fitted.plot()
    assert len(ax.get_yticklabels()) == 30


def test_margin():
    X, _ = rows(24, 2)
    model = quietly(ClusterTree(depth=2, separation=0.1, **SHORT), X)
    assert model.posterior_["violation"].min() >= 0
    assert model.predict(X[:2]).shape == (2, 2)
    stated = quietly(ClusterTree(depth=2, separation=0.1, target="stated", **SHORT), X)
    assert 0 <= stated.one_path_fraction_ <= 1
    with pytest.raises(ValueError, match="penalty"):
        ClusterTree(separation=0.1, penalty="sum", **SHORT).fit(X)


def test_levels_priors_and_starts():
    X, groups = rows(24, 2)
    own = {"alpha": [0.8, 0.2], "separation": "auto", "precision_rate": (0.1, 0.1), "start": "ward"}
    model = quietly(ClusterTree(depth=2, **own, **SHORT), X)
    assert (model.posterior_["alpha"][0, 0] == [0.8, 0.2]).all()
    assert ((model.labels_[:, 1] == model.labels_[0, 1]) == (groups == 0)).all()
    assert clone(model).alpha == [0.8, 0.2]
    with pytest.raises(ValueError, match="one number for all levels, or 3"):
        ClusterTree(alpha=[0.8, 0.2], **SHORT).fit(X)
    with pytest.raises(ValueError, match="gaussian-known"):
        ClusterTree(variance=2.0, **SHORT).fit(X)


def test_the_sampler_of_the_paper():
    X, _ = rows(24, 2)
    own = {"sampler": "paper", "own_margin": "marginal", "separation": 0.1, "target": "stated"}
    model = quietly(ClusterTree(depth=2, **own, **SHORT), X)
    assert "approximate" in str(model.summary())
    with pytest.raises(ValueError, match="calibration"):
        ClusterTree(sampler="paper", separation=0.1, **SHORT).fit(X)


def test_temperatures():
    X, _ = rows(24, 2)
    model = quietly(ClusterTree(depth=2, temperatures=3, **SHORT), X)
    assert model.swap_acceptance_.shape == (2,)
    assert ((model.swap_acceptance_ >= 0) & (model.swap_acceptance_ <= 1)).all()
    assert "swap acceptance" in str(model.summary())
    assert not hasattr(quietly(ClusterTree(depth=2, **SHORT), X), "swap_acceptance_")
    with pytest.raises(ValueError, match="paper"):
        ClusterTree(sampler="paper", temperatures=2, **SHORT).fit(X)


def test_binary_rows():
    rng = np.random.default_rng(3)
    X = (rng.random((24, 12)) < np.where(np.arange(24)[:, None] < 12, 0.1, 0.9)).astype(float)
    model = quietly(ClusterTree(depth=2, likelihood="bernoulli", **SHORT), X)
    assert model.labels_[0, 1] != model.labels_[-1, 1]
    assert ((model.components_ >= 0) & (model.components_ <= 1)).all()
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        ClusterTree(likelihood="bernoulli", **SHORT).fit(X + 0.5)


def test_pickles_clones_and_runs(fitted, tmp_path):
    X, _ = rows(30, 0)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()
    kept = quietly(ClusterTree(depth=2, out=tmp_path / "run", **SHORT), X)
    np.testing.assert_array_equal(kept.labels_, fitted.labels_)
    np.testing.assert_array_equal(load_run(tmp_path / "run").labels_, fitted.labels_)


def test_refuses_wrong_input():
    X, _ = rows(9, 4)
    with pytest.raises(ValueError, match="depth"):
        ClusterTree(depth=0).fit(X)
    with pytest.raises(NotFittedError):
        ClusterTree().predict(X)
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        ClusterTree(**SHORT).fit(X)
