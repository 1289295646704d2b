"""Random calls: whatever is asked of an estimator, the answer is a result or an error in words.

`VARIEGATE_RANDOM_CALLS=2000` asks for more of them than the tests usually make.
"""

import os
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import variegate as vg
from variegate import _core

CALLS = int(os.environ.get("VARIEGATE_RANDOM_CALLS", "200"))
PART = 50
PACKAGE = str(Path(vg.__file__).parent)

DRAWS = {"n_chains": 2, "n_warmup": 3, "n_draws": 6, "random_state": 1}
ASCENT = {"max_iter": 6, "n_init": 2, "random_state": 1}
ESTIMATORS = [
    (vg.BayesianLogisticRegression, DRAWS),
    (vg.BayesianLogisticRegression, {"inference": "vb", "max_iter": 6, "random_state": 1}),
    (vg.BayesianSVC, DRAWS),
    (vg.BayesianSVC, {"inference": "vb", "max_iter": 6, "random_state": 1}),
    (vg.BayesianSVC, {"inference": "map", "max_iter": 6, "random_state": 1}),
    (vg.SoftmaxClassifier, {"max_iter": 6, "random_state": 1}),
    (vg.MultimodalSoftmaxClassifier, {"subclasses": 2, **ASCENT}),
    (vg.HierarchicalMixtureOfExpertsClassifier, {"experts": 2, **ASCENT}),
    (vg.MixtureOfExpertsClassifier, {"experts": 2, **DRAWS}),
    (vg.MixtureOfExpertsClassifier, {"experts": 2, "inference": "vb", **ASCENT}),
    (vg.MixtureOfExpertsRegressor, {"experts": 2, **ASCENT}),
    (vg.SharedFactorModel, DRAWS),
    (vg.SharedFactorModel, {"likelihood": "gaussian", **DRAWS}),
    (vg.LatentFeatureModel, {"start_sweeps": 5, **DRAWS}),
    (vg.LatentFeatureModel, {"prior": "mutual-angular", "start_sweeps": 5, **DRAWS}),
    (vg.ClusterTree, {"depth": 2, **DRAWS}),
    (vg.ClusterTree, {"depth": 2, "separation": 0.3, **DRAWS}),
    (vg.MultiLabelMixtureClassifier, {"components": 3, "n_init": 1, "max_iter": 5, "random_state": 1}),
]
# what a user may hand over by mistake
ANYTHING = (
    None,
    True,
    -1,
    0,
    2,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "auto",
    "label",
    "é",
    [],
    [1, 2],
    {},
    {"a": 1},
    (),
    b"x",
    object,
)


def chosen(rng, values):
    return values[int(rng.integers(len(values)))]


def a_value(rng, setting):
    """A value of a setting, or now and then anything."""
    if rng.random() < 0.15:
        return chosen(rng, ANYTHING)
    if setting["kind"].endswith("integer"):
        return int(rng.integers(0, 4))
    if setting["kind"].endswith("number"):
        return float(chosen(rng, [0.0, 0.01, 0.5, 1.0, 3.0, 1e6]))
    if setting["kind"].endswith("number or text"):
        return chosen(rng, [0.0, 0.5, 1.0, 1e6, "auto", "0.5,1,2", [0.5, 1.0], None])
    if setting["kind"] == "word":
        return chosen(rng, setting["allowed"].removeprefix("one of ").split(", "))
    if setting["kind"].endswith("boolean"):
        return bool(rng.integers(2))
    return chosen(rng, ["auto", "none", "2", "all:2", "diag", "polynomial:2", "fourier:3", None, [2, 1]])


def some_rows(rng, counts):
    """Rows that may do, in some form; now and then rows that will not."""
    n, d = int(rng.integers(1, 8) if rng.random() < 0.1 else rng.integers(8, 25)), 3
    X = rng.poisson(2.0, size=(n, d)).astype(float) if counts else rng.normal(size=(n, d))
    if rng.random() < 0.1:
        X[rng.integers(n), rng.integers(d)] = chosen(rng, [np.nan, np.inf, -1.0, 1e300, 0.5])
    if rng.random() < 0.1:
        X[:, 0] = 1.0
    forms = [
        lambda: X,
        lambda: X,
        lambda: X.tolist(),
        lambda: np.asfortranarray(X),
        lambda: X.astype(np.float32),
        lambda: sparse.csr_matrix(X),
        lambda: sparse.coo_array(X),
        lambda: pd.DataFrame(X, columns=["a", "b", "c"]),
        lambda: pd.DataFrame(X, columns=["a", "b", "c"]).astype({"b": "category"}),
        lambda: X.astype(object),
        lambda: X[:, :1],
        lambda: X[:0],
        lambda: X[:, 0],
        lambda: X.astype(str),
        lambda: pd.DataFrame({"a": ["x"] * n, "b": X[:, 1], "c": X[:, 2]}),
        lambda: chosen(rng, ANYTHING),
        lambda: "nowhere.parquet",
    ]
    weights = np.array([10, 8, 2, 2, 2, 3, 2, 6, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3, 0.2])
    return forms[rng.choice(len(forms), p=weights / weights.sum())](), n


def some_targets(rng, n, regression):
    if regression and rng.random() < 0.9:
        return rng.normal(size=(n, int(rng.integers(1, 3))) if rng.random() < 0.3 else n)
    y = np.arange(n) % 2
    if rng.random() < 0.8:
        return y
    forms = [
        np.array(["no", "yes"])[y],
        y.astype(bool),
        y * 1.5,
        y[: n // 2],
        y.reshape(-1, 1),
        None,
        np.full(n, np.nan),
    ]
    return chosen(rng, forms)


def questions(rng, model, X, n, regression):
    """Methods of a fitted estimator, each with arguments."""
    sources = chosen(rng, [None, np.arange(n) % 2, ["a"] * n, "a"])
    y = some_targets(rng, n, regression)
    method = chosen(rng, [None, None, "average", "probit", "mc", "map", "plug-in", "nonsense", 3])
    level = chosen(rng, [0.5, 0.9, 0.0, 1.0, -1, "a", None, float("nan")])
    with_sources = (X, sources) if isinstance(model, vg.SharedFactorModel) else (X,)
    asked = {
        "predict": (X,),
        "predict_proba": (X, method),
        "predict_log_proba": (X, method),
        "predict_proba_std": (X,),
        "predict_interval": (X, level),
        "predict_dist": (X, (0.1, 0.9)),
        "responsibilities": (X, y),
        "together": (X,),
        "score": (X, y),
        "summary": (),
        "transform": with_sources,
        "inverse_transform": (chosen(rng, [X, np.ones((2, 1)), np.zeros((3, 0))]),),
        "reconstruct": (X,),
        "held_out": with_sources,
        "impute": with_sources,
        "score_samples": with_sources,
        "complete": (*with_sources, level),
        "perplexity": (X, sources),
        "retrieve": (X, X, chosen(rng, [None, 1, 0, -3, "k"])),
        "get_feature_names_out": (chosen(rng, [None, ["a"], 3]),),
        "get_metadata_routing": (),
    }
    return {name: arguments for name, arguments in asked.items() if hasattr(type(model), name)}


def ours(error):
    """Whether an error comes out of this package although it is none that a user is meant to see."""
    if isinstance(error, (ValueError, NotFittedError, OSError)):
        return len(str(error)) < 10
    last = traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error, (TypeError, AttributeError, ImportError, KeyError)) and not last.filename.startswith(PACKAGE):
        return False  # scikit-learn, NumPy and pandas have words of their own for what is no array at all
    return not (isinstance(error, TypeError) and len(str(error)) > 20)


@pytest.mark.parametrize("part", range(max(CALLS // PART, 1)))
@pytest.mark.filterwarnings("ignore")
def test_random_calls_give_results_or_errors_in_words(part):
    done = 0
    for number in range(part * PART, (part + 1) * PART):
        rng = np.random.default_rng([19, number])
        kind, fixed = chosen(rng, ESTIMATORS)
        names = kind._get_param_names()
        table = {s["name"]: s for s in _core.family_info(kind._family)["settings"] if s["name"] in names}
        given = dict(fixed)
        for _ in range(int(rng.integers(0, 3))):
            name = chosen(rng, sorted(table))
            given[name] = a_value(rng, table[name])
        model = kind(**given)
        regression = kind is vg.MixtureOfExpertsRegressor
        counts = kind is vg.SharedFactorModel and "likelihood" not in fixed
        X, n = some_rows(rng, counts)
        asked = [("fit", lambda: fit(rng, model, X, n, regression))]  # noqa: B023 — asked before the next call
        for _ in range(3):
            rows, size = some_rows(rng, counts) if rng.random() < 0.5 else (X, n)
            name, arguments = chosen(rng, sorted(questions(rng, model, rows, size, regression).items()))
            asked.append((name, lambda a=arguments, n=name: getattr(model, n)(*a)))  # noqa: B023
        for name, call in asked:
            try:
                call()
                done += name == "fit"
            except Exception as error:
                if ours(error):
                    raise AssertionError(f"call {number}: {name} of {model} on\n{X}") from error
    # were nearly all of them refused at the door, little would have been tried
    assert done >= PART // 5


def fit(rng, model, X, n, regression):
    as_it_should_be = rng.random() < 0.8
    if isinstance(model, vg.SharedFactorModel):
        wrong = [["a", "b"] * n, 3, [None] * n]
        return model.fit(X, sources=chosen(rng, [None, np.arange(n) % 2] if as_it_should_be else wrong))
    if isinstance(model, vg.LatentFeatureModel):
        return model.fit(X, feature_names=chosen(rng, [None, None] if as_it_should_be else [["a"], "a", 3]))
    if isinstance(model, vg.ClusterTree):
        return model.fit(X)
    if isinstance(model, vg.MultiLabelMixtureClassifier):
        sound = [
            np.arange(2 * n).reshape(n, 2) % 2,
            [("a",), ()] * (n // 2) + [("b",)] * (n % 2),
            np.full((n, 1), np.nan),
        ]
        return model.fit(X, chosen(rng, sound if as_it_should_be else [np.arange(n), "a", None, np.full((n, 2), 7)]))
    weights = chosen(rng, [None, np.ones(n)] if as_it_should_be else [np.zeros(n), -np.ones(n), "w"])
    return model.fit(X, some_targets(rng, n, regression), sample_weight=weights)
