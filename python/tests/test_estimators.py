"""What every estimator promises beyond scikit-learn's own checks."""

import inspect
import pickle
import re

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import variegate
from variegate import _core, _progress
from variegate._base import FamilyEstimator

RUN = ["random_state", "threads", "block_rows", "engine", "out", "progress"]
SEARCH = {"n_init", "n_vb", "anneal", "criterion", "generations", "relevance", "folds"}
REAL = {"noise_shape", "noise_rate", "slope_shape", "slope_rate", "slope_precision"}
# `task` and the kind of structure are the choice of a class; `preset` stands for values that Python gives one by one
TREES = {"task", "subclasses", "experts", "gates", "preset"}
LEFT_OUT = {
    "BayesianLogisticRegression": set(),
    "BayesianSVC": set(),
    "SoftmaxClassifier": TREES | SEARCH | REAL | {"gate_precision"},
    "MultimodalSoftmaxClassifier": TREES - {"subclasses"} | REAL | {"gate_precision"},
    "HierarchicalMixtureOfExpertsClassifier": TREES - {"experts", "gates"} | {"generations", "relevance"} | REAL,
    "MixtureOfExpertsClassifier": set(),
    "MixtureOfExpertsRegressor": TREES - {"experts", "gates"} | {"anneal", "generations", "relevance", "class_weight"},
    "SharedFactorModel": set(),
    "LatentFeatureModel": set(),
    "MultiLabelMixtureClassifier": set(),
    "ClusterTree": set(),
}
# what a class has that its family has not
PREDICTS = {"predict_draws": None}
OWN = {
    "BayesianLogisticRegression": PREDICTS,
    "BayesianSVC": PREDICTS,
    "SoftmaxClassifier": PREDICTS,
    "MultimodalSoftmaxClassifier": PREDICTS,
    "HierarchicalMixtureOfExpertsClassifier": PREDICTS,
    "MixtureOfExpertsClassifier": {"input_map": None, "class_weight": None} | PREDICTS,
    "MixtureOfExpertsRegressor": PREDICTS,
    "MultiLabelMixtureClassifier": {"rule": None, "nonempty": False},
}
# what is left open is None in Python, and classes that are about a structure begin with one
OTHER_DEFAULTS = {
    "input_map": None,
    "class_weight": None,
    ("MultimodalSoftmaxClassifier", "subclasses"): "auto",
    ("MixtureOfExpertsRegressor", "experts"): "auto:5",
}
ESTIMATORS = [e for e in vars(variegate).values() if isinstance(e, type) and issubclass(e, FamilyEstimator)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_parameters_are_the_table_of_settings(estimator):
    """Names, order, defaults and texts of the constructor are those that Rust and the command line know."""
    kind = estimator.__name__
    own = OWN.get(kind, {})
    table = [s for s in _core.family_info(estimator._family)["settings"] if s["name"] not in LEFT_OUT[kind]]
    parameters = inspect.signature(estimator).parameters
    assert [p for p in parameters if p not in own] == [s["name"] for s in table] + RUN
    assert {name: parameters[name].default for name in own} == own
    documentation = inspect.cleandoc(estimator.__doc__)
    for setting in table:
        name = setting["name"]
        default = OTHER_DEFAULTS.get((kind, name), OTHER_DEFAULTS.get(name, setting["default"]))
        assert parameters[name].default == default, name
        assert type(parameters[name].default) is type(default), name
        [text] = re.findall(rf"^{name} : .*, default=.*\n((?:    .*\n)+)", documentation, re.M)
        assert " ".join(text.split()).startswith(setting["help"].replace("nothing", "None") + "."), name
    assert all(re.search(rf"^{name} : ", documentation, re.M) for name in [*own, *RUN])
    assert "{" not in documentation.replace('{"', "")  # nothing was left to fill in
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())


def test_every_estimator_is_known_here():
    assert {e.__name__ for e in ESTIMATORS} == set(LEFT_OUT)


def test_same_seed_same_bits_on_any_number_of_threads(small, two_classes):
    X, y = two_classes
    small.set_params(block_rows=7)
    first = clone(small).set_params(threads=1).fit(X, y)
    for threads in (1, 2, 4):
        again = clone(small).set_params(threads=threads).fit(X, y)
        for name, array in first._model.arrays().items():
            np.testing.assert_array_equal(array, again._model.arrays()[name], err_msg=name)
        np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))


def test_random_state_is_the_seed(two_classes, small):
    X, y = two_classes
    assert small.fit(X, y)._model.seed == 1
    state = np.random.RandomState(5)
    seeds = [small.set_params(random_state=state).fit(X, y)._model.seed for _ in range(2)]
    assert seeds[0] != seeds[1]
    assert small.set_params(random_state=np.random.RandomState(5)).fit(X, y)._model.seed == seeds[0]
    assert small.set_params(random_state=2**64 - 1).fit(X, y)._model.seed == 2**64 - 1
    np.random.seed(1)  # noqa: NPY002 — scikit-learn's None means this generator
    free = small.set_params(random_state=None).fit(X, y)._model.seed
    np.random.seed(1)  # noqa: NPY002
    assert small.fit(X, y)._model.seed == free
    with pytest.raises(ValueError, match=r"random_state.*-1"):
        small.set_params(random_state=-1).fit(X, y)


def displaced(values):
    """The same numbers at an address that is no multiple of their size, as what comes over a wire."""
    room = np.empty(values.nbytes + 1, np.uint8)
    out = room[1:].view(values.dtype).reshape(values.shape)
    out[...] = values
    assert not out.flags.aligned
    return out


def test_numbers_may_lie_anywhere(small, two_classes):
    X, y = two_classes
    weights = np.ones(len(y))
    here = clone(small).fit(X, y, weights)
    there = small.fit(displaced(X), displaced(y), displaced(weights))
    np.testing.assert_array_equal(there.predict_proba(displaced(X)), here.predict_proba(X))
    thin = sparse.csr_array(X)
    moved = sparse.csr_array((displaced(thin.data), displaced(thin.indices), displaced(thin.indptr)), shape=X.shape)
    np.testing.assert_array_equal(there.predict_proba(moved), here.predict_proba(thin))


LABELS = [["no", "yes"], [False, True], [-1, 1], [3.0, 7.0], np.array(["a", "b"], dtype=object)]


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_any_type(small, two_classes, labels):
    X, y = two_classes
    labels = np.asarray(labels)
    small.fit(X, labels[y])
    np.testing.assert_array_equal(small.classes_, labels)
    assert small.predict(X).dtype == labels.dtype
    assert small.score(X, labels[y]) > 0.7
    np.testing.assert_array_equal(small.predict_proba(X), clone(small).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "csr_array", "unsorted", "int64"])
def test_sparse_rows_give_what_dense_rows_give(small, two_classes, form):
    X, y = two_classes
    X = np.where(np.abs(X - [0, 100, 0]) < [0.5, 3.0, 0.1], 0.0, X)
    S = sparse.csr_matrix(X)
    if form == "unsorted":
        S = sparse.csr_matrix((S.data[::-1], S.indices[::-1], (S.nnz - S.indptr)[::-1]), shape=S.shape)[::-1]
        assert not S.has_canonical_format
        kept = S.indices.copy()
    elif form == "int64":
        S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    else:
        S = sparse.csr_array(X) if form == "csr_array" else S.asformat(form)
    dense, small = clone(small).fit(X, y), small.fit(S, y)
    if (
        getattr(small, "gates", None) is not None
    ):  # a search with many optima makes much of the last digit, and stops at a tolerance
        assert small.bound_ == pytest.approx(dense.bound_, abs=small.tol)
        np.testing.assert_allclose(small.predict_proba(S), dense.predict_proba(X), atol=0.01)
    else:
        np.testing.assert_allclose(small.coef_, dense.coef_, rtol=1e-6)
        np.testing.assert_allclose(small.predict_proba(S), dense.predict_proba(X), rtol=1e-6)
    if form == "unsorted":
        np.testing.assert_array_equal(S.indices, kept)  # the caller's matrix is left alone


@pytest.mark.parametrize("form", ["float32", "fortran", "strided", "read-only", "list", "pandas", "int"])
def test_other_memory_gives_the_same_fit(small, two_classes, form):
    X, y = two_classes
    X = np.round(X * 4) / 4  # exact in float32
    if form == "int":
        X = np.round(X)
    other = {
        "float32": lambda: X.astype(np.float32),
        "fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "list": lambda: X.tolist(),
        "pandas": lambda: pd.DataFrame(X, columns=["a", "b", "c"]),
        "int": lambda: X.astype(int),
        "read-only": lambda: X.copy(),
    }[form]()
    if form == "read-only":
        other.flags.writeable = False
    plain = clone(small).fit(X, y)
    np.testing.assert_array_equal(small.fit(other, y).predict_proba(other), plain.predict_proba(X))


def test_columns_are_told_by_their_names(small, two_classes):
    X, y = two_classes
    frame = pd.DataFrame(X, columns=["size", "age", "dose"])
    small.fit(frame, pd.Series(y))
    assert list(small.feature_names_in_) == ["size", "age", "dose"]
    assert any("dose" in name for name in small.summary().rows)
    with pytest.raises(ValueError, match="feature names"):
        small.predict(frame[["age", "size", "dose"]])
    with pytest.raises(ValueError, match="feature names"):
        small.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="2 features, but .* expecting 3 features"):
        small.predict(X[:, :2])


def test_survives_pickle_joblib_and_clone(small, two_classes, tmp_path):
    X, y = two_classes
    small.fit(X, y)
    joblib.dump(small, tmp_path / "model")
    for copy in (pickle.loads(pickle.dumps(small)), joblib.load(tmp_path / "model")):
        np.testing.assert_array_equal(copy.predict_proba(X), small.predict_proba(X))
        assert str(copy.summary()) == str(small.summary())
        np.testing.assert_array_equal(copy._model.trace()[0]["objective"], small._model.trace()[0]["objective"])
    assert not hasattr(clone(small), "classes_")
    damaged = bytearray(pickle.dumps(small))
    damaged[damaged.index(b"VGST") + 100] ^= 1  # within what is sealed; traces, which may be longer, are not
    with pytest.raises((ValueError, pickle.UnpicklingError, EOFError)):
        pickle.loads(bytes(damaged)).predict_proba(X)


def test_works_inside_scikit_learn(small, two_classes):
    X, y = two_classes
    pipeline = make_pipeline(StandardScaler(), small)
    with joblib.parallel_config("threading", n_jobs=2):  # several fits at once, none of them on the main thread
        assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7
    name = type(small).__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__bias_precision": [0.1, None]}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_estimator_.predict(X).shape == y.shape


def test_what_is_said_of_a_row_depends_on_that_row_alone(small, two_classes):
    X, y = two_classes
    small.fit(X, y)
    for method in small._model.methods:
        whole = small.predict_proba(X, method=method)
        np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_array_equal(np.vstack([small.predict_proba(row[None], method=method) for row in X]), whole)
        np.testing.assert_array_equal(small.predict_log_proba(X, method=method), np.log(whole))
    with pytest.raises(ValueError, match=r"`method` is guess.*one of"):
        small.predict_proba(X, method="guess")


def test_refuses_what_it_cannot_take(small, two_classes):
    X, y = two_classes
    for value in (np.nan, np.inf):
        bad = X.copy()
        bad[4, 1] = value
        with pytest.raises(ValueError, match="NaN|infinity"):
            small.fit(bad, y)
    with pytest.raises(ValueError, match="one class"):
        small.fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="sample_weight.shape"):
        small.fit(X, y, sample_weight=[1, 2])
    with pytest.raises(ValueError, match=r"row 1: the weight is -1"):
        small.fit(X, y, sample_weight=-np.ones(len(X)))
    for threads in (0, -1, 1.5, True, "all", 1025, 2**40):
        with pytest.raises(ValueError, match="`threads` is .*, but it must be"):
            clone(small).set_params(threads=threads).fit(X, y)
    with pytest.raises(ValueError, match="`progress` is 'maybe'"):
        clone(small).set_params(progress="maybe").fit(X, y)


def test_a_bar_follows_the_fit(small, two_classes, capfd):
    small.set_params(progress=True).fit(*two_classes)
    shown = capfd.readouterr().err
    assert type(small).__name__ in shown
    assert "100%" in shown
    small.set_params(progress="auto").fit(*two_classes)  # not a terminal
    assert capfd.readouterr().err == ""


def test_a_long_fit_says_at_its_start_how_long_it_takes(monkeypatch):
    """In the words of the command line, with settings of Python."""
    text = _progress.forecast(300.0, 4, 500, 1000, 1)
    assert text == (
        "about 5 min for 4 chains of 1,500 sweeps, at the pace so far; n_warmup=100, n_draws=200 would take about "
        "60 s, for a first look"
    )
    assert _progress.forecast(59.0, 4, 500, 1000, 1) is None
    clock = iter([0.0, 1.0, 5.0, 6.0])
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    said = []
    tell = _progress._Forecast("Model", (500, 1000, 1), said.append)
    for sweeps in (0, 10, 20):
        tell([(chain, sweeps, 1500, True, False, 0.0, 0) for chain in range(4)])
        assert bool(said) == (sweeps > 0)
    # ten sweeps in five seconds
    assert len(said) == 1
    assert said[0].startswith("Model: about 12 min for 4 chains")


def test_an_error_while_showing_progress_stops_the_fit(two_classes):
    X, y = two_classes

    def fail(chains):
        assert chains[0][1] > 0
        raise ZeroDivisionError("from the bar")

    with pytest.raises(ZeroDivisionError, match="from the bar"):
        _core.fit("logistic", {}, X, (y.astype(np.uint32), ["0", "1"]), progress=fail)


def random_value(rng, setting):
    """Something that the setting allows, or something that it does not."""
    anything = [
        None,
        True,
        -1,
        0,
        1,
        2.5,
        -1e300,
        float("nan"),
        float("inf"),
        "word",
        "",
        10**30,
        [1],
        {"children": [2]},
        np.float64(2),
        np.int64(3),
    ]
    if rng.random() < 0.1:
        return anything[rng.integers(len(anything))]
    match setting["kind"]:
        case "integer" | "optional integer":
            return int(rng.integers(0, 5))
        case "number" | "optional number":
            return float(np.exp(rng.normal(scale=20)))
        case "number or text" | "optional number or text":
            values = [0.0, 0.5, 3, "auto", "0.5,2", [0.5, 1.0], None]
            return values[rng.integers(len(values))]
        case "text" | "optional text" | "nested":
            texts = [
                "auto",
                "none",
                "child",
                "2",
                "all:2",
                "diag",
                "lowrank:1",
                "polynomial:2",
                "fourier:3",
                None,
                [2, 1],
                "1,2",
            ]
            return texts[rng.integers(len(texts))]
        case "word":
            words = setting["allowed"].removeprefix("one of ").split(", ")
            return words[rng.integers(len(words))]
        case _:
            return bool(rng.integers(2))


def random_data(rng):
    n, d = rng.integers(1, 30), rng.integers(1, 6)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-300, -8, 0, 0, 0, 8, 150, 300], size=d)
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = rng.choice([0.0, 1e300, -5.0])
    if rng.random() < 0.1:
        X[rng.integers(n), rng.integers(d)] = rng.choice([np.nan, np.inf])
    if rng.random() < 0.2:
        X = sparse.csr_matrix(X * (rng.random(X.shape) < 0.5))
    return X, rng.integers(0, rng.integers(2, 4), size=n)


@pytest.mark.parametrize("seed", range(60))
def test_random_settings_and_data_give_a_result_or_a_clear_error(small, seed):
    rng = np.random.default_rng(seed)
    X, y = random_data(rng)
    for setting in _core.family_info(small._family)["settings"]:
        if rng.random() < 0.4 and setting["name"] in small.get_params():
            small.set_params(**{setting["name"]: random_value(rng, setting)})
    weights = None if rng.random() < 0.6 else rng.integers(0, 3, size=len(y)).astype(float)
    try:
        small.fit(X, y, sample_weight=weights)
    except (ValueError, RuntimeError) as error:
        assert len(str(error)) > 20
        return
    P = small.predict_proba(X)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)
    assert isinstance(str(small.summary()), str)
