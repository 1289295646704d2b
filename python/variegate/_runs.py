"""Runs that are kept in folders."""

import numpy as np

from . import _core
from ._logistic import BayesianLogisticRegression
from ._softmax import SoftmaxClassifier

_ESTIMATORS = {estimator._family: estimator for estimator in (BayesianLogisticRegression, SoftmaxClassifier)}


def load_run(path):
    """Open a run that the command line or an estimator with `out` has written.

    Parameters
    ----------
    path : str or path
        Folder of the run. It may be unfinished: what has been saved so far is taken.

    Returns
    -------
    estimator
        A fitted estimator, ready to predict. A run keeps the names of its classes, so `classes_` are strings.
    """
    model, settings = _core.read_run(path)
    estimator = _ESTIMATORS[model.family](**settings, random_state=model.seed)
    estimator._model = model
    estimator.classes_ = np.array(model.classes)
    estimator.n_features_in_ = model.width
    if model.columns:
        estimator.feature_names_in_ = np.array(model.columns, dtype=object)
    estimator._read()
    return estimator
