"""Regression by experts behind gates."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_array

from ._base import columns_here, one_target
from ._documented import documented
from ._files import column
from ._inputs import chosen_draws, laid_out, lend, plain
from ._rows import validated
from ._trees import TreeEstimator

_ANY_NUMBER = "auto:5"


@dataclass(frozen=True)
class PredictiveDistribution:
    """Distribution of the outcome of each row.

    Attributes
    ----------
    mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Mean.
    sd : ndarray of the same shape
        Standard deviation; infinite where the distribution has none.
    quantiles : dict of float to ndarray
        Quantile at each level that was asked for.
    """

    mean: np.ndarray
    sd: np.ndarray
    quantiles: dict


@documented
class MixtureOfExpertsRegressor(RegressorMixin, TreeEstimator):
    """Regression by linear experts behind a softmax gate, or a tree of gates, by variational Bayes.

    The gate gives each expert a probability in the columns x; an expert is a linear regression with its own Gaussian
    noise. Which expert a row belongs to is not observed. Predictions are mixtures of Student's t distributions, so they
    may have several modes. The number of experts can be given or chosen from the data by the bound on the log evidence.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    expert_coef_ : ndarray of shape (n_experts, n_outputs, n_features)
        Posterior mean of the slopes of each expert, in the units of columns and outcomes as given.
    expert_intercept_ : ndarray of shape (n_experts, n_outputs)
        Posterior mean of the intercepts of each expert.
    expert_noise_ : ndarray of shape (n_experts, n_outputs)
        Standard deviation of the noise of each expert.
    gate_coef_, gate_intercept_ : ndarray
        Posterior mean of the coefficients of the gates, each child against the mean of its gate; without a row for one
        expert, which has no gate.
    gate_coef_sd_, gate_intercept_sd_ : ndarray
        Posterior standard deviations of these.
    n_outputs_ : int
        Number of outcomes of a row.
    {attributes}

    See Also
    --------
    MixtureOfExpertsClassifier : The same for classes.

    Notes
    -----
    `gates` takes the place of `experts`. Columns that are made by an `input_map` belong to gates and experts alike.
    Methods of `predict` and `predict_dist` are "probit" (the uncertainty of the gates averaged out by a closed form,
    the default), "mc" (averaged over draws) and "map" (at the posterior mean of the gates).

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import MixtureOfExpertsRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(200, 1))
    >>> y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = MixtureOfExpertsRegressor(n_init=4, random_state=1).fit(X, y)
    >>> model.structure_
    '2 experts'
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> dist = model.predict_dist(X, quantiles=(0.05, 0.95))
    >>> bool(0.8 < np.mean((dist.quantiles[0.05] < y) & (y < dist.quantiles[0.95])) < 0.98)
    True
    """

    _fixed = {"task": "regression"}  # noqa: RUF012 — never changed

    def __init__(
        self,
        *,
        experts=_ANY_NUMBER,
        gates=None,
        inference="vb",
        bound="tilted",
        coding="full",
        covariance="auto",
        precision="node",
        prior_precision=1.0,
        gate_precision=None,
        a0=1.0,
        b0=1.0,
        bias_precision=None,
        noise_shape=1.0,
        noise_rate=0.01,
        slope_shape=1.0,
        slope_rate=1.0,
        slope_precision=None,
        standardize=True,
        input_map=None,
        tol=0.001,
        max_iter=600,
        map_penalty=0.01,
        n_init=10,
        n_vb=2,
        criterion="auto",
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

    def _settings(self):
        settings = super()._settings()
        if self.gates is not None and settings["experts"] == _ANY_NUMBER:
            settings["experts"] = None  # a tree says how many there are
        return settings

    def fit(self, X, y=None, sample_weight=None, *, target=None, feature_names=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), DataFrame or files
            Features. A C-contiguous float64 array and a CSR matrix are used in place, without a copy. Files are
            Parquet: a path, a pattern such as ``"data/*.parquet"``, or a list of these. With an `engine`, Dask arrays
            and frames too.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outcomes.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Weight of each row: 0 leaves it out, 2 counts it twice. Or the name of a column of X.
        target : str or list of str, default=None
            Name of the column of X that is the outcome, or of several, instead of `y`.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns, where X has none (an array, a sparse matrix): findings are told by them. Later rows
            without names are told by their places.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._forget()
        y = one_target(y, target)
        if (engine := self._engine()) is not None:
            if y is None:
                raise ValueError(f"a {type(self).__name__} needs outcomes: give `y` or `target`")
            with engine.hold(
                X, y=y, weights=column("sample_weight", sample_weight), block_rows=self._block_rows()
            ) as rows:
                self._flat = rows.outcomes == ()
                return self._fit_elsewhere(rows, feature_names=feature_names)
        X, y, sample_weight, _, columns = columns_here(X, y, column("sample_weight", sample_weight))
        X, y = validated(self, X, y, reset=True, y_numeric=True, multi_output=True)
        self._name(feature_names, columns)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        self._flat = y.ndim == 1
        X, columns = self._map(X, y)
        return self._fit(X, self._matrix(y), sample_weight, columns)

    @staticmethod
    def _matrix(y):
        return laid_out(y.reshape(len(y), -1).astype(np.float64, copy=False))

    def _open(self, model, types):
        self._flat = model.outputs == 1
        super()._open(model, types)

    def _read(self):
        arrays = super()._read()
        self.n_outputs_ = self._model.outputs
        for name in ("coef", "intercept", "coef_sd", "intercept_sd"):
            if name in arrays:
                setattr(self, f"gate_{name}_", arrays[name])
        for name in ("expert_coef", "expert_intercept", "expert_noise"):
            if name in arrays:
                setattr(self, f"{name}_", arrays[name])
        return arrays

    def _target(self, y, rows):
        y = self._matrix(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        if y.shape != (rows, self.n_outputs_):
            raise ValueError(f"`y` has {y.shape} entries, but ({rows}, {self.n_outputs_}) are needed")
        return y

    def _shaped(self, values):
        return values[:, 0] if self._flat else values

    def predict(self, X, method=None):
        """Mean of the outcome of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. What is said of a row depends on that row alone.
        method : str, default=None
            How the posterior of the gates is averaged; see the class.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Means, in the shape of `y` at the fit.
        """
        return self.predict_dist(X, quantiles=(), method=method).mean

    def predict_dist(self, X, quantiles=(0.05, 0.5, 0.95), method=None):
        """Distribution of the outcome of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        quantiles : sequence of float, default=(0.05, 0.5, 0.95)
            Levels between 0 and 1.
        method : str, default=None
            How the posterior of the gates is averaged; see the class.

        Returns
        -------
        PredictiveDistribution
            With `mean`, `sd` and `quantiles`, a dictionary by level.
        """
        X = self._rows(X)
        levels = [float(level) for level in plain(quantiles)]
        found = self._distribution(X, levels, method)
        return PredictiveDistribution(
            self._shaped(found["mean"]),
            self._shaped(found["deviation"]),
            dict(zip(levels, map(self._shaped, found["quantiles"]), strict=True)),
        )

    def _distribution(self, X, levels, method, y=None):
        method = "" if method is None else str(method)
        # draws are those of chains; a variational fit has closed forms
        draws = None if "mc" in self._model.methods else chosen_draws(self.predict_draws)
        return self._model.predict_real(lend(X), levels, method, y, draws)

    def predict_interval(self, X, level=0.9):
        """Intervals that outcomes lie in.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        level : float, default=0.9
            Probability that an outcome lies in its interval, which is equal-tailed: 0.9 is from the 5 % to the 95 %
            quantile of `predict_dist`.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends along the last axis.
        """
        level = float(level)
        if not 0 < level < 1:
            raise ValueError(f"`level` is {level}, but it must be a number between 0 and 1")
        found = self.predict_dist(X, quantiles=((1 - level) / 2, (1 + level) / 2))
        return np.stack(list(found.quantiles.values()), axis=-1)

    def log_density(self, X, y, method=None):
        """Log density of outcomes, the fair score of a predicted distribution.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outcomes.
        method : str, default=None
            How the posterior of the gates is averaged; see the class.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log density of the outcomes of each row together.
        """
        X = self._rows(X)
        y = self._target(y, X.shape[0])
        return self._distribution(X, [], method, y)["ln_density"]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
