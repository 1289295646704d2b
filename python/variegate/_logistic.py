"""Bayesian logistic regression."""

from ._base import FamilyClassifier
from ._posterior import Posterior, log_joint_trace


class BayesianLogisticRegression(FamilyClassifier):
    """Logistic regression of two classes with exact posterior draws by Polya-Gamma Gibbs sampling.

    The log-odds of the second class are linear in the standardised columns; weights and bias have Gaussian priors with
    mean zero. Chains are independent and run in parallel. The same `random_state` gives the same draws to the bit,
    whatever the number of threads.

    Parameters
    ----------
    prior_precision : float, default=1.0
        Prior precision of each weight, on the scale of the standardised columns.
    bias_precision : float or None, default=0.1
        Prior precision of the bias; None gives it that of the weights.
    fit_intercept : bool, default=True
        Whether there is a bias.
    standardize : bool, default=True
        Whether columns are centred and scaled to unit variance first. Sparse data stay sparse.
    n_chains : int, default=4
        Independent chains.
    n_warmup : int, default=500
        Sweeps of each chain before its first draw.
    n_draws : int, default=1000
        Draws kept of each chain.
    thin : int, default=1
        Sweeps for each draw that is kept.
    random_state : int, RandomState or None, default=None
        Seed of every random number.
    threads : int or None, default=None
        Threads to use; None takes all there are.
    block_rows : int or None, default=None
        Rows that are worked on together; other values give other draws. None chooses by the number of columns.
    out : str, path or None, default=None
        Folder that keeps the run while it goes on: draws, traces and states, as the command line writes them. A fit
        that was stopped goes on there if it is called again with the same data and settings; a finished one is read.
    progress : bool or "auto", default="auto"
        Whether tqdm draws a progress bar; "auto" does so in a terminal or a notebook.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two classes.
    coef_ : ndarray of shape (1, n_features)
        Posterior mean of the coefficients, in the units of the columns as given.
    intercept_ : ndarray of shape (1,)
        Posterior mean of the intercept.
    posterior_ : Posterior
        The draws: `coef`, `intercept` and `log_joint` as arrays (chain, draw, ...).
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log joint density of every sweep, warm-up included.
    n_iter_ : int
        Sweeps of each chain.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    See Also
    --------
    SoftmaxClassifier : Any number of classes, by variational Bayes.

    Notes
    -----
    Weights of rows (`sample_weight`) must be whole numbers here; a row of weight 2 counts twice. Methods of
    `predict_proba` are "average" (over the draws, the default) and "plug-in" (at the posterior mean).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from variegate import BayesianLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLogisticRegression(n_warmup=200, n_draws=500, random_state=7).fit(X[:, :5], y)
    >>> model.predict_proba(X[:2, :5]).shape
    (2, 2)
    >>> model.posterior_["coef"].shape
    (4, 500, 5)
    """

    _family = "logistic"

    def __init__(
        self,
        *,
        prior_precision=1.0,
        bias_precision=0.1,
        fit_intercept=True,
        standardize=True,
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
        self.prior_precision = prior_precision
        self.bias_precision = bias_precision
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.thin = thin
        self.random_state = random_state
        self.threads = threads
        self.block_rows = block_rows
        self.out = out
        self.progress = progress

    def _check_classes(self):
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass. "
                "Use SoftmaxClassifier for more classes."
            )

    def _read(self):
        arrays = super()._read()
        self.posterior_ = Posterior(self._model)
        self.log_joint_trace_ = log_joint_trace([chain["objective"] for chain in self._model.trace()])
        return arrays

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
