"""Bayesian support vector machine."""

from sklearn.utils.extmath import safe_sparse_dot

from ._base import FamilyClassifier
from ._class_weights import ClassWeights
from ._documented import documented
from ._posterior import Posterior, log_joint_trace

# what fits leave behind, by one way of inference or another
_FITTED = "posterior_", "log_joint_trace_", "bound_", "elbo_trace_", "coef_sd_", "intercept_sd_", "precision_"


@documented
class BayesianSVC(ClassWeights, FamilyClassifier):
    """Linear support vector machine with a posterior: exact draws, variational Bayes, or the usual maximum.

    A hinge takes the place of the likelihood: a row of class s (1 or -1) counts exp(-2 max(0, 1 - s w·x)) in the
    standardised columns x and a bias. That is no probability of a class, so that the posterior of the weights is one of
    a pseudo-likelihood: it says how sure the boundary is. The strength of the penalty, the prior precision of the
    weights, is learned unless it is given. More than two classes are told apart one against the rest.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior mean of the coefficients, in the units of the columns as given: of the second of two classes against
        the first, or of each class against the rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Posterior mean of the intercepts.
    coef_sd_, intercept_sd_ : ndarray
        Standard deviations of these where `inference` is "vb", which are far too small here.
    precision_ : ndarray of shape (1,) or (n_classes,)
        The prior precision that was learned, where `inference` is "vb" or "map".
    posterior_ : Posterior
        The draws, where `inference` is "gibbs": `coef`, `intercept`, `log_joint`, and `precision` where it is learned,
        as arrays (chain, draw, ...).
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log density of every sweep, warm-up included, where `inference` is "gibbs".
    bound_ : float
        The lower bound that was reached where `inference` is "vb", or the log density at the maximum ("map").
    elbo_trace_ : ndarray of shape (n_iter_,)
        The same after every sweep.
    n_iter_ : int
        Sweeps of a chain, or of the ascent.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    See Also
    --------
    BayesianLogisticRegression : Two classes, with a likelihood in place of the hinge.
    SoftmaxClassifier : More classes, with probabilities that compare them all at once.

    Notes
    -----
    Weights of rows (`sample_weight`) may be any numbers that are not negative. Probabilities are the classes' shares of
    the pseudo-likelihood, made to sum to one where there are more than two; they are sharper than those of a logistic
    regression. Methods of `predict_proba` are "average" (over the draws, the default) and "plug-in" (at the posterior
    mean) where `inference` is "gibbs", else "plug-in" alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from variegate import BayesianSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianSVC(inference="map").fit(X, y)
    >>> model.decision_function(X[:2]).shape
    (2, 3)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _family = "svm"
    _left_open = ("class_weight",)

    def __init__(
        self,
        *,
        inference="gibbs",
        prior_precision=None,
        precision_shape=0.5,
        precision_rate=0.5,
        bias_precision=0.01,
        fit_intercept=True,
        standardize=True,
        class_weight=None,
        tol=1e-08,
        max_iter=10000,
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

    def _setting(self, name, value):
        # what is given one by one is applied to the rows
        return super()._setting(name, None if name == "class_weight" and isinstance(value, dict) else value)

    def _read(self):
        for name in _FITTED:
            vars(self).pop(name, None)
        arrays = super()._read()
        traces = [chain["objective"] for chain in self._model.trace()]
        if "chain_lengths" in arrays:
            self.posterior_ = Posterior(self._model)
            self.log_joint_trace_ = log_joint_trace(traces)
            return arrays
        self.bound_ = float(arrays["elbo" if "elbo" in arrays else "objective"][0])
        [self.elbo_trace_] = traces
        for name in ("coef_sd", "intercept_sd", "precision"):
            if name in arrays:
                setattr(self, f"{name}_", arrays[name])
        return arrays

    def _from_draws(self, X, level=None):
        if not hasattr(self, "posterior_"):
            X = self._rows(X)  # what is wrong with the rows comes first
            raise ValueError(
                "a support vector machine says by draws alone how sure its probabilities are (variances of `vb` are "
                'far too small, and `map` has none): fit with `inference` "gibbs"'
            )
        return super()._from_draws(X, level)

    def decision_function(self, X):
        """Posterior mean of the linear function of each row.

        `predict` goes by probabilities, which are averaged over the draws where there are any: at the very boundary the
        two may disagree then.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Above 0 for the second of two classes; for more the largest is the class. At 1 and beyond a row is outside
            the margin.
        """
        X = self._rows(X)
        values = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return values.ravel() if values.shape[1] == 1 else values
