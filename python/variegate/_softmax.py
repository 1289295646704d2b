"""Softmax classification."""

from ._base import FamilyClassifier


class SoftmaxClassifier(FamilyClassifier):
    """Softmax (multinomial logistic) regression by variational Bayes.

    Class probabilities are proportional to exp(w_c·x) in the standardised columns x and a bias. The posterior of the
    weights is approximated by a Gaussian and that of their prior precisions, which are learned, by Gamma distributions;
    the fit raises a lower bound on the log evidence until it stands still. It starts from penalised maximum likelihood,
    so nothing is random.

    Parameters
    ----------
    bound : {"tilted", "double"}, default="tilted"
        Bound of the log-sum-exp. "double" is faster and much looser: it overstates log-odds.
    covariance : {"auto", "joint", "child"}, default="auto"
        Covariance of all weights, or of those of each class apart; "auto" is joint up to 512 weights.
    precision : {"node", "child", "feature", "entry", "fixed"}, default="node"
        Weights that share a learned prior precision: all, those of a class, those of a column, none; or "fixed".
    prior_precision : float, default=1.0
        Prior precision of each weight where `precision` is "fixed".
    a0, b0 : float, default=1.0
        Shape and rate of the Gamma prior of precisions.
    bias_precision : float or None, default=None
        Fixed prior precision of the bias; None treats it like any other input.
    standardize : bool, default=True
        Whether columns are centred and scaled to unit variance first. Sparse data stay sparse.
    tol : float, default=0.001
        The fit ends when a sweep raises the bound by less than this.
    max_iter : int, default=600
        Most sweeps.
    map_penalty : float, default=0.01
        Penalty of squared weights in the search for the start.
    random_state : int, RandomState or None, default=None
        Seed of the draws of `predict_proba(X, method="mc")`; the fit itself takes no random numbers.
    threads : int or None, default=None
        Threads to use; None takes all there are. Results do not depend on it.
    block_rows : int or None, default=None
        Rows that are worked on together; other values change the last digits. None chooses by the number of columns.
    out : str, path or None, default=None
        Folder that keeps the run while it goes on: traces and states, as the command line writes them. A fit that was
        stopped goes on there if it is called again with the same data and settings; a finished one is read.
    progress : bool or "auto", default="auto"
        Whether tqdm draws a progress bar; "auto" does so in a terminal or a notebook.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_classes, n_features)
        Posterior mean of the coefficients, each class against the mean of all, in the units of the columns as given.
    intercept_ : ndarray of shape (n_classes,)
        Posterior mean of the intercepts.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations of these.
    bound_ : float
        The lower bound on the log evidence that was reached. It compares fits of the same `bound`, `covariance` and
        `precision`.
    elbo_trace_ : ndarray of shape (n_iter_,)
        The bound after every sweep.
    n_iter_ : int
        Number of sweeps.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    See Also
    --------
    BayesianLogisticRegression : Two classes, with draws from the exact posterior.

    Notes
    -----
    Weights of rows (`sample_weight`) may be any numbers that are not negative. Methods of `predict_proba` are "probit"
    (the uncertainty of the weights averaged out by a closed form, the default), "mc" (averaged over draws) and "map"
    (at the posterior mean, no averaging).

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

    _family = "softmax"

    def __init__(
        self,
        *,
        bound="tilted",
        covariance="auto",
        precision="node",
        prior_precision=1.0,
        a0=1.0,
        b0=1.0,
        bias_precision=None,
        standardize=True,
        tol=0.001,
        max_iter=600,
        map_penalty=0.01,
        random_state=None,
        threads=None,
        block_rows=None,
        out=None,
        progress="auto",
    ):
        self.bound = bound
        self.covariance = covariance
        self.precision = precision
        self.prior_precision = prior_precision
        self.a0 = a0
        self.b0 = b0
        self.bias_precision = bias_precision
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.map_penalty = map_penalty
        self.random_state = random_state
        self.threads = threads
        self.block_rows = block_rows
        self.out = out
        self.progress = progress

    def _read(self):
        arrays = super()._read()
        self.coef_sd_ = arrays["coef_sd"]
        self.intercept_sd_ = arrays["intercept_sd"]
        self.bound_ = float(arrays["elbo"][0])
        self.elbo_trace_ = self._model.trace()[0]["objective"]
        return arrays
