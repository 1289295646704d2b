"""Classification by experts behind gates."""

from ._documented import documented
from ._trees import TreeClassifier


class ExpertClassifier(TreeClassifier):
    """A classifier whose components are experts behind gates."""

    def _settings(self):
        if self.prior != "gaussian":
            raise ValueError(f'`prior` is {self.prior!r}, but the only prior of the weights is "gaussian"')
        return super()._settings()


@documented
class MixtureOfExpertsClassifier(ExpertClassifier):
    """Mixture of experts: a softmax gate chooses between softmax classifiers, each for its own region.

    The gate gives each expert a probability in the columns x, and each expert its own class probabilities; which expert
    a row belongs to is not observed. The number of experts can be given or chosen from the data by the bound on the log
    evidence.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_experts + n_experts * n_classes, n_features)
        Posterior mean of the coefficients: first those of the gate, each expert against the mean of all, then those of
        each expert, each class against the mean of all. One expert has no gate.
    intercept_ : ndarray
        Posterior mean of the intercepts, in the same order.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations of these.
    {attributes}

    See Also
    --------
    HierarchicalMixtureOfExpertsClassifier : Experts behind a tree of gates.
    MixtureOfExpertsRegressor : The same for real outcomes.

    Notes
    -----
    Methods of `predict_proba` are "probit" (the default), "mc" and "map", as those of `SoftmaxClassifier`. Only
    inference "vb" searches for the number of experts by the bound; with the others give a number.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import MixtureOfExpertsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0)
    >>> model = MixtureOfExpertsClassifier(experts=2, n_init=4, random_state=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.component_names_
    ['expert 1', 'expert 2']
    """

    _structure = "experts"

    def __init__(
        self,
        *,
        prior="gaussian",
        experts="auto:5",
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
        criterion="elbo-sym",
        folds=5,
        n_chains=4,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        random_state=None,
        threads=None,
        block_rows=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())


@documented
class HierarchicalMixtureOfExpertsClassifier(ExpertClassifier):
    """Experts behind a tree of gates: regions are divided into regions, and each has a softmax classifier.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_children, n_features)
        Posterior mean of the coefficients of all nodes, gates and experts, from the root down: each child of a node
        against the mean of its node. The rows of `summary()` name them.
    intercept_ : ndarray
        Posterior mean of the intercepts, in the same order.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations of these.
    {attributes}

    See Also
    --------
    MixtureOfExpertsClassifier : One gate, with as many experts as the data ask for.

    Notes
    -----
    Methods of `predict_proba` are "probit" (the default), "mc" and "map", as those of `SoftmaxClassifier`. Trees are
    not searched for; fit several and compare their `bound_`, or `selection_`.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import HierarchicalMixtureOfExpertsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0)
    >>> tree = ["expert", ["expert", "expert"]]
    >>> model = HierarchicalMixtureOfExpertsClassifier(gates=tree, n_init=4, random_state=1).fit(X, y)
    >>> model.structure_
    '(e (e e))'
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _structure = "gates"

    def __init__(
        self,
        *,
        prior="gaussian",
        gates=(2, 2),
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
        n_chains=4,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        random_state=None,
        threads=None,
        block_rows=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())
