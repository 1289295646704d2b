"""Softmax classification, with or without subclasses."""

from ._documented import documented
from ._trees import TreeClassifier


@documented
class SoftmaxClassifier(TreeClassifier):
    """Softmax (multinomial logistic) regression by variational Bayes.

    Class probabilities are proportional to exp(w_c·x) in the standardised columns x and a bias. The posterior of the
    weights is approximated by a Gaussian and that of their prior precisions, which are learned, by Gamma distributions;
    the fit raises a lower bound on the log evidence until it stands still. It starts from penalised maximum likelihood,
    so nothing is random.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior mean of the coefficients, in the units of the columns as given: for two classes the log-odds of the
        second, for more each class against the mean of all.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Posterior mean of the intercepts.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations of these.
    {attributes}

    See Also
    --------
    MultimodalSoftmaxClassifier : The same with subclasses, for classes of several parts.
    BayesianLogisticRegression : Two classes, with draws from the exact posterior.

    Notes
    -----
    Weights of rows (`sample_weight`) may be any numbers that are not negative. Methods of `predict_proba` are "probit"
    (the uncertainty of the weights averaged out by a closed form, the default), "mc" (averaged over draws) and "map"
    (at the posterior mean, no averaging); with inference "gibbs" there is "average" alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from variegate import SoftmaxClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftmaxClassifier().fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        inference="vb",
        bound="tilted",
        coding="full",
        covariance="auto",
        precision="node",
        prior_precision=1.0,
        a0=1.0,
        b0=1.0,
        bias_precision=None,
        standardize=True,
        input_map=None,
        class_weight=None,
        tol=0.001,
        max_iter=600,
        map_penalty=0.01,
        n_chains=4,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        predict_draws=None,
        random_state=None,
        threads=None,
        block_rows=None,
        engine=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())


@documented
class MultimodalSoftmaxClassifier(TreeClassifier):
    """Softmax classification with subclasses: classes of several parts, with boundaries of several straight pieces.

    Each class is a sum of subclasses, whose probabilities are proportional to exp(w_s·x); which subclass a row belongs
    to is not observed. How many subclasses each class has can be given, or chosen by how well held-out rows are
    predicted or by the bound on the log evidence.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_subclasses, n_features)
        Posterior mean of the coefficients, each subclass against the mean of all, in the order of `component_names_`.
        Two classes of one subclass each have one row, the log-odds of the second class.
    intercept_ : ndarray of shape (n_subclasses,)
        Posterior mean of the intercepts.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations of these.
    {attributes}

    See Also
    --------
    SoftmaxClassifier : One part a class.
    HierarchicalMixtureOfExpertsClassifier : Gates choose between softmax classifiers.

    Notes
    -----
    Methods of `predict_proba` are "probit" (the default), "mc" and "map", as those of `SoftmaxClassifier`. A bound
    compares structures only under the same `bound`, `covariance` and `precision`.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import MultimodalSoftmaxClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 2)) * 0.5
    >>> X[:, 0] += np.where(y == 1, rng.choice([-3.0, 3.0], size=200), 0.0)
    >>> model = MultimodalSoftmaxClassifier(subclasses="auto:3", random_state=1).fit(X, y)
    >>> model.structure_
    '[1,2]'
    >>> model.responsibilities(X).shape
    (200, 3)
    """

    _structures = ("subclasses",)

    def __init__(
        self,
        *,
        subclasses="auto",
        inference="vb",
        bound="tilted",
        coding="full",
        covariance="auto",
        precision="node",
        prior_precision=1.0,
        a0=1.0,
        b0=1.0,
        bias_precision=None,
        standardize=True,
        input_map=None,
        class_weight=None,
        tol=0.001,
        max_iter=600,
        map_penalty=0.01,
        n_init=10,
        n_vb=2,
        anneal=False,
        criterion="auto",
        generations=2,
        relevance=0.05,
        folds=5,
        n_chains=4,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        predict_draws=None,
        random_state=None,
        threads=None,
        block_rows=None,
        engine=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())
