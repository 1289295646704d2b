"""Runs that are kept in folders."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import variegate as vg
from variegate import load_run
from variegate._labels import restored


def test_a_kept_fit_equals_one_in_memory(small, two_classes, tmp_path):
    X, y = two_classes
    memory = clone(small).fit(X, y)
    small.set_params(out=tmp_path / "run").fit(X, y)
    np.testing.assert_array_equal(small.predict_proba(X), memory.predict_proba(X))
    assert (tmp_path / "run" / "settings.toml").exists()
    # again: the finished run is read, not done again
    stamp = (tmp_path / "run" / "manifest.json").stat().st_mtime_ns
    again = clone(small).fit(X, y)
    assert (tmp_path / "run" / "manifest.json").stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(again.coef_, memory.coef_)
    assert again.n_iter_ == memory.n_iter_
    # a seed that was left to chance is that of the run
    assert clone(small).set_params(random_state=None).fit(X, y)._model.seed == 1


def test_other_fits_leave_a_run_alone(small, two_classes, tmp_path):
    X, y = two_classes
    small.set_params(out=str(tmp_path / "run")).fit(X, y)
    files = sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "run").rglob("*") if p.is_file())
    for change, data, words in [
        ({}, (X + 1, y), "other data"),
        ({"random_state": 2}, (X, y), "seed is 1, here it is 2"),
        ({"standardize": False}, (X, y), "`standardize` is true there and false here"),
        ({"block_rows": 10}, (X, y), "block_rows"),
    ]:
        with pytest.raises(FileExistsError, match=rf"holds another run.*{words}.*choose another `out`"):
            clone(small).set_params(**change).fit(*data)
    assert files == sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "run").rglob("*") if p.is_file())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(OSError, match="thesis.tex"):
        clone(small).set_params(out=tmp_path / "mine").fit(X, y)


def test_more_draws_go_on_with_a_run(two_classes, tmp_path):
    X, y = two_classes
    small = vg.BayesianLogisticRegression(n_chains=2, n_warmup=10, n_draws=20, random_state=1)
    longer = clone(small).set_params(n_draws=50, n_chains=3).fit(X, y)
    small.set_params(out=tmp_path / "run").fit(X, y)
    first = small.posterior_["coef"]
    small.set_params(n_draws=50, n_chains=3).fit(X, y)
    np.testing.assert_array_equal(small.posterior_["coef"], longer.posterior_["coef"])
    np.testing.assert_array_equal(small.posterior_["coef"][:2, :20], first)
    assert load_run(tmp_path / "run").n_draws == 50
    # fewer are another run, and so is another warm-up
    for change in ({"n_draws": 30}, {"n_chains": 2}, {"n_draws": 60, "n_warmup": small.n_warmup + 1}):
        with pytest.raises(FileExistsError, match=f"`{[*change][-1]}` is"):
            clone(small).set_params(**change).fit(X, y)


def test_a_run_opens_as_a_fitted_estimator(small, two_classes, tmp_path):
    X, y = two_classes
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    names = np.array(["no", "yes"])
    small.set_params(out=tmp_path / "run").fit(frame, names[y])
    loaded = load_run(tmp_path / "run")
    assert type(loaded) is type(small)
    assert loaded.get_params() == {**small.get_params(), "out": None}
    np.testing.assert_array_equal(loaded.predict(frame), small.predict(frame))
    np.testing.assert_array_equal(loaded.predict_proba(frame), small.predict_proba(frame))
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    assert str(loaded.summary()) == str(small.summary())


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 7]),
        np.array([-1.0, 2.0], dtype=np.float32),
        np.array([False, True]),
        np.array(["3", "7"]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_come_back_with_their_type(small, two_classes, tmp_path, labels):
    X, y = two_classes
    small.set_params(out=tmp_path / "run").fit(X, labels[y])
    loaded = load_run(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(X), small.predict(X))
    assert loaded.classes_.dtype.kind == labels.dtype.kind
    assert loaded.score(X, labels[y]) == small.score(X, labels[y]) > 0.5


def test_labels_of_a_file_are_numbers_if_they_are_written_so():
    for names, expected in [
        (["-1", "1"], [-1, 1]),
        (["1.0", "2.5"], [1.0, 2.5]),
        (["1", "a"], ["1", "a"]),
        (["007", "1"], ["007", "1"]),
        (["nan", "1.0"], ["nan", "1.0"]),
        (["True", "False"], ["True", "False"]),
    ]:
        found = restored(names, None)
        assert found.tolist() == expected
        assert found.dtype.kind == np.array(expected).dtype.kind


def test_a_damaged_or_missing_run_is_named(small, two_classes, tmp_path):
    with pytest.raises(OSError, match="is not a run"):
        load_run(tmp_path / "nowhere")
    small.set_params(out=tmp_path / "run").fit(*two_classes)
    settings = tmp_path / "run" / "settings.toml"
    settings.write_text(settings.read_text().replace("true", "false", 1))
    with pytest.raises(OSError, match=r"settings.toml` was altered or damaged"):
        load_run(tmp_path / "run")


def test_draws_open_in_pandas(two_classes, tmp_path):
    from variegate import BayesianLogisticRegression

    pytest.importorskip("pyarrow", reason="pandas reads Parquet with pyarrow, which is not installed")
    model = BayesianLogisticRegression(n_chains=2, n_warmup=5, n_draws=20, random_state=1, out=tmp_path / "run")
    model.fit(*two_classes)
    draws = pd.concat(pd.read_parquet(p) for p in sorted((tmp_path / "run" / "draws").glob("scalars-*.parquet")))
    assert len(draws) == 40
    first = draws[draws["chain"] == 0].sort_values("draw")
    np.testing.assert_array_equal(first["log_joint"], model.posterior_["log_joint"][0])


@pytest.mark.parametrize("kind", ["logistic", "svm", "softmax", "experts", "factors", "features", "tree"])
def test_every_estimator_that_keeps_draws_exports_them(kind, two_classes):
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    X, y = two_classes
    short = {"n_chains": 2, "n_warmup": 5, "n_draws": 6, "random_state": 1}
    model = {
        "logistic": lambda: vg.BayesianLogisticRegression(**short).fit(X, y),
        "svm": lambda: vg.BayesianSVC(**short).fit(X, y),
        "softmax": lambda: vg.MultimodalSoftmaxClassifier(subclasses=[2, 1], inference="gibbs", **short).fit(X, y),
        "experts": lambda: vg.MixtureOfExpertsClassifier(experts=2, **short).fit(X, y),
        "factors": lambda: vg.SharedFactorModel(likelihood="gaussian", **short).fit(X),
        "features": lambda: vg.LatentFeatureModel(**short).fit(X),
        "tree": lambda: vg.ClusterTree(**short).fit(X),
    }[kind]()
    data = model.to_arviz()
    assert data["posterior"].sizes["chain"] == 2
    assert data["posterior"].sizes["draw"] == 6
    assert data["sample_stats"]["lp"].shape == (2, 6)
    figures = model.summary().to_dict()
    assert figures["facts"]["draws"] == 12
    assert all(
        isinstance(x, float) for table in figures["tables"].values() for row in table.values() for x in row.values()
    )
