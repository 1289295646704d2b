"""Bayesian latent-variable models whose components must differ from one another.

The estimators follow scikit-learn; the work is done in Rust (``variegate._core``). ArviZ, pandas and tqdm are used
where they are installed, and imported only when they are needed.
"""

from . import diagnostics
from ._core import __version__
from ._dask import DaskEngine
from ._experts import HierarchicalMixtureOfExpertsClassifier, MixtureOfExpertsClassifier
from ._factors import SharedFactorModel
from ._features import LatentFeatureModel
from ._latent import HeldOut
from ._logistic import BayesianLogisticRegression
from ._multilabel import MultiLabelMixtureClassifier
from ._posterior import Posterior
from ._regression import MixtureOfExpertsRegressor, PredictiveDistribution
from ._runs import load_run
from ._sensitivity import sensitivity
from ._softmax import MultimodalSoftmaxClassifier, SoftmaxClassifier
from ._summary import Summary
from ._svm import BayesianSVC
from ._tree import ClusterTree, Tree, TreeNode

__all__ = [
    "BayesianLogisticRegression",
    "BayesianSVC",
    "ClusterTree",
    "DaskEngine",
    "HeldOut",
    "HierarchicalMixtureOfExpertsClassifier",
    "LatentFeatureModel",
    "MixtureOfExpertsClassifier",
    "MixtureOfExpertsRegressor",
    "MultiLabelMixtureClassifier",
    "MultimodalSoftmaxClassifier",
    "Posterior",
    "PredictiveDistribution",
    "SharedFactorModel",
    "SoftmaxClassifier",
    "Summary",
    "Tree",
    "TreeNode",
    "__version__",
    "diagnostics",
    "load_run",
    "sensitivity",
]
