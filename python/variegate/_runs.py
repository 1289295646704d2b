"""Runs that are kept in folders."""

from . import _core
from ._experts import HierarchicalMixtureOfExpertsClassifier, MixtureOfExpertsClassifier
from ._factors import SharedFactorModel
from ._features import LatentFeatureModel
from ._logistic import BayesianLogisticRegression
from ._multilabel import MultiLabelMixtureClassifier
from ._regression import MixtureOfExpertsRegressor
from ._softmax import MultimodalSoftmaxClassifier, SoftmaxClassifier
from ._svm import BayesianSVC
from ._tree import ClusterTree

# of several that could open a run, the first does
_ESTIMATORS = (
    BayesianLogisticRegression,
    BayesianSVC,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    MixtureOfExpertsClassifier,
    HierarchicalMixtureOfExpertsClassifier,
    SoftmaxClassifier,
    SharedFactorModel,
    LatentFeatureModel,
    MultiLabelMixtureClassifier,
    ClusterTree,
)


def load_run(path):
    """Open a run that the command line or an estimator with `out` has written.

    Parameters
    ----------
    path : str or path
        Folder of the run. It may be unfinished: what has been saved so far is taken.

    Returns
    -------
    estimator
        A fitted estimator, ready to predict. `classes_` and `sources_` have the types they had at the fit: integers,
        floats, booleans or strings. In a run that the command line made of a file they are numbers if all of them are
        written like numbers. A transformer that was given as `input_map` is not part of a run: apply it to the rows
        first.
    """
    model, family, settings, types = _core.read_run(path)
    [kind, *_] = [e for e in _ESTIMATORS if e._family == family and e._opens(settings)]
    estimator = kind(**kind._from_settings(settings), random_state=model.seed)
    estimator._open(model, types)
    return estimator
