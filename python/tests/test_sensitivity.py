"""Grids of settings."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from variegate import BayesianLogisticRegression, ClusterTree, sensitivity

SHORT = {"n_chains": 2, "n_warmup": 40, "n_draws": 30, "thin": 1, "random_state": 1}


def rows():
    """Eighteen rows of three groups, and their groups, of which one is not known."""
    groups = np.arange(18) % 3
    X = np.array([[-9.0, 0.0], [9.0, -3.0], [9.0, 3.0]])[groups] + 0.3 * np.random.default_rng(0).normal(size=(18, 2))
    return X, [None, *("abc"[g] for g in groups[1:])]


def quietly(*args, **kwargs):
    """The table, whatever is said of convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sensitivity(*args, **kwargs)


def test_every_combination_is_a_row():
    X, labels = rows()
    tree = ClusterTree(depth=2, **SHORT)
    table = quietly(tree, X, vary={"separation": [0.0, 0.3], "margin": [0.5, 1.0]}, labels=labels)
    assert list(table.columns[:4]) == ["separation", "margin", "converged", "nodes of level 1"]
    assert table.columns[-1] == "failure"
    assert list(zip(table["separation"], table["margin"], strict=True)) == [(0, 0.5), (0, 1), (0.3, 0.5), (0.3, 1)]
    # a margin without separation makes no sense
    assert "separation" in table["failure"][0]
    assert np.isnan(table["aod"][0])
    assert table["failure"][1:].isna().all()
    for name in ("components", "R-hat, largest", "aid_ratio", "aod_ratio", "f_2", "tree_f_2", "purity"):
        assert np.isfinite(table[name][1:].to_numpy(float)).all(), name
    assert table["one_path_fraction"][1:].between(0, 1).all()
    # each is what a fit alone gives
    alone = ClusterTree(depth=2, separation=0.3, margin=0.5, **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone.fit(X)
    assert table["components"][2] == pytest.approx(alone.n_components_draws_.mean())
    assert table["f_2"][2] == alone.tree_scores(X, labels)["f_2"]["mean"]
    assert not hasattr(tree, "labels_")
    # several at once give the same
    again = quietly(tree, X, vary={"separation": [0.0, 0.3], "margin": [0.5, 1.0]}, labels=labels, n_jobs=2)
    assert table.equals(again)


def test_models_with_targets_and_other_depths(two_classes, tmp_path):
    X, y = two_classes
    model = BayesianLogisticRegression(n_chains=2, n_warmup=20, n_draws=50, out=tmp_path)
    table = quietly(model, X, y, vary={"prior_precision": [0.1, 10.0]})
    assert np.isfinite(table["mean log joint density"]).all()
    # the runs are kept, and not done again
    runs = sorted(path.name for path in tmp_path.iterdir())
    assert runs == ["prior_precision=0.1", "prior_precision=10.0"]
    assert table.equals(quietly(model, X, y, vary={"prior_precision": [0.1, 10.0]}))
    table = quietly(ClusterTree(**SHORT), rows()[0], vary={"depth": [1, 2]})
    columns = list(table.columns)
    assert columns.index("nodes of level 2") == columns.index("nodes of level 1") + 1
    assert np.isnan(table["nodes_2"][0])


def test_says_what_is_wrong_and_what_has_not_converged(monkeypatch):
    X, _ = rows()
    tree = ClusterTree(depth=1, **SHORT | {"n_draws": 5})
    for vary, words in [
        ({"nope": [1]}, "`nope` is no setting of ClusterTree"),
        ({}, "names no setting"),
        ({"alpha": []}, "no value of `alpha`"),
        ({"alpha": [-1.0, 0.0]}, "alpha"),
    ]:
        with pytest.raises(ValueError, match=words):
            sensitivity(tree, X, vary=vary)
    with pytest.raises(ValueError, match="n_jobs"):
        sensitivity(tree, X, vary={"alpha": [1.0]}, n_jobs=0)
    with pytest.raises(ValueError, match="`labels` judge trees"):
        sensitivity(BayesianLogisticRegression(), X, X[:, 0] > 0, vary={"prior_precision": [1.0]}, labels=X[:, 0] > 0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.warns(ConvergenceWarning, match="2 of 2 combinations have not converged: alpha=0.1; alpha=1.0"):
        table = sensitivity(tree, X, vary={"alpha": [0.1, 1.0]})
    assert [row["alpha"] for row in table] == [0.1, 1.0]
    assert table[0]["converged"] is False
    assert table[0]["failure"] is None
