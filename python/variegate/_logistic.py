"""Bayesian logistic regression."""

from ._base import FamilyClassifier
from ._documented import documented
from ._posterior import Posterior, log_joint_trace

# what fits leave behind, by one way of inference or the other
_FITTED = "posterior_", "log_joint_trace_", "bound_", "elbo_trace_", "coef_sd_", "intercept_sd_"


@documented
class BayesianLogisticRegression(FamilyClassifier):
    """Logistic regression of two classes, by exact posterior draws (Polya-Gamma Gibbs) or variational Bayes.

    The log-odds of the second class are linear in the standardised columns; weights and bias have Gaussian priors with
    mean zero. Chains are independent and run in parallel. The same `random_state` gives the same draws to the bit,
    whatever the number of threads.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two classes.
    coef_ : ndarray of shape (1, n_features)
        Posterior mean of the coefficients, in the units of the columns as given.
    intercept_ : ndarray of shape (1,)
        Posterior mean of the intercept.
    posterior_ : Posterior
        The draws: `coef`, `intercept` and `log_joint` as arrays (chain, draw, ...), where `inference` is "gibbs".
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log joint density of every sweep, warm-up included, where `inference` is "gibbs".
    coef_sd_, intercept_sd_ : ndarray of shape (1, n_features) and (1,)
        Posterior standard deviations, where `inference` is "vb".
    bound_ : float
        The lower bound on the log evidence that was reached, where `inference` is "vb".
    elbo_trace_ : ndarray of shape (n_iter_,)
        The bound after every sweep, where `inference` is "vb".
    n_iter_ : int
        Sweeps of each chain, or of the ascent.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    See Also
    --------
    SoftmaxClassifier : Any number of classes, by variational Bayes.

    Notes
    -----
    Weights of rows (`sample_weight`) must be whole numbers for draws; a row of weight 2 counts twice. Where `inference`
    is "vb" they may be any numbers that are not negative. Methods of `predict_proba` are "average" (over the draws, the
    default; "integral" over the normal posterior of "vb") and "plug-in" (at the posterior mean).

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
        inference="gibbs",
        prior_precision=1.0,
        bias_precision=0.1,
        fit_intercept=True,
        standardize=True,
        tol=1e-08,
        max_iter=1000,
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

    def _check_classes(self):
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass. "
                "Use SoftmaxClassifier for more classes."
            )

    def _read(self):
        for name in _FITTED:
            vars(self).pop(name, None)
        arrays = super()._read()
        traces = [chain["objective"] for chain in self._model.trace()]
        if "elbo" in arrays:
            self.bound_ = float(arrays["elbo"][0])
            [self.elbo_trace_] = traces
            self.coef_sd_, self.intercept_sd_ = arrays["coef_sd"], arrays["intercept_sd"]
            return arrays
        self.posterior_ = Posterior(self._model)
        self.log_joint_trace_ = log_joint_trace(traces)
        return arrays

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
