"""What is wrong in rows is said with its place."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import variegate as vg

CLASSIFIERS = [
    vg.SoftmaxClassifier(random_state=1),
    vg.BayesianLogisticRegression(n_chains=2, n_warmup=5, n_draws=10, random_state=1),
    vg.BayesianSVC(n_chains=2, n_warmup=5, n_draws=10, random_state=1),
    vg.MixtureOfExpertsClassifier(experts=2, n_chains=2, n_warmup=5, n_draws=10, random_state=1),
    vg.MixtureOfExpertsRegressor(experts=2, random_state=1),
]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(30, 3)), columns=["age", "height", "weight"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("asked", ["fit", "predict"])
def test_the_place_of_a_value_that_is_no_number_is_named(model, asked, frame):
    y = np.arange(30) % 2
    bad = frame.copy()
    bad.loc[7, "height"] = np.nan
    worse = frame.astype(object)
    worse.loc[4, "weight"] = "heavy"
    gap = frame.to_numpy().copy()
    gap[2, 0] = np.inf
    thin = sparse.csr_array(np.where(np.abs(gap) > 0.5, gap, 0.0))
    cases = [
        (bad, r"Input X contains NaN: row 7 \(counted from 0\), column `height` is missing; .*SimpleImputer"),
        (worse, r"row 4 \(counted from 0\), column `weight` is 'heavy', which is not a number.*OneHotEncoder"),
        (gap, r"Input X contains infinity: row 2 \(counted from 0\), column 0 is inf"),
        (thin, r"Input X contains infinity: row 2 \(counted from 0\), column 0 is inf"),
    ]
    for X, words in cases:
        if asked == "fit":
            with pytest.raises(ValueError, match=words):
                model.fit(X, y)
        else:
            like = frame if hasattr(X, "columns") else frame.to_numpy()
            with pytest.raises(ValueError, match=words):
                model.fit(like, y).predict(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_a_fit_that_fails_leaves_nothing_to_ask(model, frame):
    y = np.arange(30) % 2
    model = clone(model).fit(frame, y)
    block_rows = model.block_rows
    with pytest.raises(ValueError, match="block_rows"):
        model.set_params(block_rows=0).fit(frame[["age"]], y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(frame)
    model.set_params(block_rows=block_rows).fit(frame, y).predict(frame)


def test_several_gaps_are_counted(frame):
    frame.iloc[3:5, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 3 .*`height` is missing, and 1 more values are not finite"):
        vg.SoftmaxClassifier().fit(frame, np.arange(30) % 2)


def test_missing_entries_of_models_that_draw_them_are_answered_by_their_own_setting(frame):
    frame.iloc[3, 1] = np.nan
    short = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "random_state": 1}
    with pytest.raises(ValueError, match=r"row 3 .*`height` is missing.*`missing=True`"):
        vg.SharedFactorModel(likelihood="gaussian", **short).fit(frame)
    with pytest.raises(ValueError, match=r"row 3 .*`height` is missing.*`missing=True`"):
        vg.LatentFeatureModel(**short).fit(frame)
    with pytest.raises(ValueError, match=r"row 3 .*`height` is missing") as raised:
        vg.SharedFactorModel(**short).fit(frame.abs().round())
    assert "missing=True" not in str(raised.value)


def test_errors_of_the_model_name_the_columns_of_a_frame(frame):
    counts = frame.abs().round()
    model = vg.SharedFactorModel(n_chains=1, n_warmup=2, n_draws=4, random_state=1).fit(counts)
    counts.iloc[5, 2] = -3.0
    with pytest.raises(ValueError, match=r"row 6, column `weight`"):
        model.transform(counts)
