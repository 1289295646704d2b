"""Rows that are sums of a few features out of an unknown number."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from ._base import columns_here
from ._documented import documented
from ._inputs import laid_out, lend
from ._latent import LatentModel
from ._rows import validated


@documented
class LatentFeatureModel(LatentModel):
    """Infinite latent features: rows of real numbers that are sums of a few features.

    Every row either uses a feature or does not, and is the sum of those that it uses, of an intercept and of noise. How
    many features there are is not given but learned. Their use follows the Indian buffet process (`prior="ibp"`) or the
    stable-beta process with its power law (`"pitman-yor"`); entries of features are Gaussian, or features have
    directions that point away from one another (`"mutual-angular"`). Draws are from the exact posterior by Markov
    chains, in parallel over rows.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        The features of the reference draw, averaged over the draws that have them too, in units of the data; those that
        most rows use come first.
    intercept_ : ndarray of shape (n_features_in_,)
        What is added to every row: the mean over the draws.
    usage_ : ndarray of shape (n_components_,)
        Share of the rows of the fit that use each feature.
    presence_ : ndarray of shape (n_components_,)
        Share of the draws that have each feature.
    n_components_ : int
        Number of features of the reference draw, the one with the largest log joint density.
    n_features_draws_ : ndarray of shape (n_chains * n_draws,)
        Number of features in each draw, of all chains one after the other.
    n_features_posterior_ : dict of int to float
        Posterior probability of each number of features.
    posterior_ : Posterior
        The draws as arrays (chain, draw): `n_features`, `n_common` (features that more than a hundredth of the rows
        uses), `log_joint`, `noise_variance`, `mass`... Features themselves have no fixed order from draw to draw.
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log joint density of every sweep, warm-up included.
    n_iter_ : int
        Sweeps of each chain.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    Notes
    -----
    Rows to say something about may have missing entries (NaN), whatever `missing` is: what was observed of them counts.
    `missing` is about the rows of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import LatentFeatureModel
    >>> rng = np.random.default_rng(0)
    >>> parts = np.kron(np.eye(3), np.ones(4))
    >>> X = rng.integers(0, 2, size=(60, 3)) @ parts + 0.2 * rng.normal(size=(60, 12))
    >>> model = LatentFeatureModel(intercept="none", n_warmup=20, n_draws=20, random_state=1).fit(X)
    >>> model.transform(X).shape == (60, model.n_components_)
    True
    >>> gaps = X[:2].copy()
    >>> gaps[:, 0] = np.nan
    >>> bool(np.abs(model.complete(gaps)[:, 0] - model.reconstruct(X[:2])[:, 0]).max() < 0.5)
    True
    """

    _family = "features"

    def __init__(
        self,
        *,
        prior="ibp",
        sampler="anchored",
        mass=1.0,
        learn_mass=True,
        concentration=1.0,
        learn_concentration=False,
        discount=None,
        noise_variance=None,
        feature_variance=None,
        magnitude="gamma",
        magnitude_shape=4.0,
        kappa=None,
        learn_kappa=False,
        intercept="sample",
        scale=True,
        missing=False,
        birth_rows=None,
        births=4,
        split_merge=10,
        shear=1,
        complement=1,
        pairs=0,
        direction="auto",
        start="grown",
        restarts=8,
        start_rows=200,
        start_sweeps=100,
        max_features=None,
        n_chains=2,
        n_warmup=50,
        n_draws=100,
        thin=5,
        random_state=None,
        threads=None,
        block_rows=None,
        engine=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())

    def fit(self, X, y=None, *, feature_names=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), DataFrame or files
            Rows. A C-contiguous float64 array and a CSR matrix are used in place, without a copy. Files are Parquet: a
            path, a pattern such as ``"data/*.parquet"``, or a list of these. With an `engine`, Dask arrays and frames
            too.
        y : ignored
            Not used: there is nothing to predict.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns, where X has none (an array, a sparse matrix): features are told by them. Later rows
            without names are told by their places.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._forget()
        if (engine := self._engine()) is not None:
            with engine.hold(X, block_rows=self._block_rows()) as rows:
                return self._fit_elsewhere(rows, feature_names=feature_names)
        X, _, _, _, columns = columns_here(X)
        X = self._validated(X, reset=True)
        self._name(feature_names, columns)
        return self._fit(X, None, None, list(getattr(self, "feature_names_in_", [])))

    def _validated(self, X, reset):
        with self._places_do():
            return validated(
                self,
                X,
                reset=reset,
                missing=self.missing is True or not reset,
                advice=", let the model draw them with `missing=True`",
            )

    def _read(self):
        arrays = super()._read()
        for name in ("components", "intercept", "usage", "presence", "n_features_draws"):
            setattr(self, f"{name}_", arrays[name])
        self.n_components_ = self.components_.shape[0]
        numbers, times = np.unique(self.n_features_draws_.astype(int), return_counts=True)
        self.n_features_posterior_ = dict(zip(numbers.tolist(), (times / times.sum()).tolist(), strict=True))
        return arrays

    def _asked(self, X):
        """Rows to say something about, as the model takes them, and no sources."""
        check_is_fitted(self)
        return lend(self._validated(X, reset=False)), None

    def _codes(self, X):
        rows, _ = self._asked(X)
        return self._model.transform(rows)[1]

    def transform(self, X):
        """Which features rows use.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; entries may be missing (NaN). What is said of a row depends on that row alone.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Probability that each row uses each feature: the mean over the draws that have the feature.
        """
        return self._codes(X)

    def fit_transform(self, X, y=None, *, feature_names=None):
        """Fit the model and say which features the same rows use; see `fit` and `transform`."""
        return self.fit(X, y, feature_names=feature_names)._codes(X)

    def inverse_transform(self, codes):
        """Rows that use features as the codes say.

        Parameters
        ----------
        codes : array-like of shape (n_samples, n_components_)
            How much each row uses of each feature: 0 and 1, or probabilities as `transform` gives them.

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
            The intercept and the sums of `components_`.
        """
        check_is_fitted(self)
        codes = check_array(codes, dtype=np.float64, order="C", ensure_min_features=0, input_name="codes")
        if codes.shape[1] != self.n_components_:
            raise ValueError(f"`codes` has {codes.shape[1]} columns, but there are {self.n_components_} features")
        if self.n_components_ == 0:
            return np.tile(self.intercept_, (len(codes), 1))
        return self._model.rebuild(laid_out(codes))

    def reconstruct(self, X):
        """Rows without their noise, as the model sees them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; entries may be missing (NaN).

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
            Intercept and features that a row uses, averaged over its codes and over draws. Codes are found from the
            whole row, so that its distance to the row says little about how well a model predicts: many features always
            come near. See `score` and `complete`.
        """
        rows, _ = self._asked(X)
        return self._model.reconstruct(rows)[0]

    def complete(self, X, return_std=False):
        """Fill in missing entries (NaN) by the means of their posterior distributions, given the rest of the row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. What is said of a row depends on that row alone.
        return_std : bool, default=False
            Whether standard deviations are given too.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in_)
            The rows without gaps; what was observed is as it was.
        std : ndarray of shape (n_samples, n_features_in_)
            Standard deviations of what was filled in, noise included, and 0 elsewhere. With `return_std` alone.
        """
        rows, _ = self._asked(X)
        filled, deviation = self._model.impute(rows)
        return (filled, deviation) if return_std else filled

    def held_out(self, X, *, temperatures=10, runs=4, draws=20):
        """Log density of rows that the fit has not seen: exact for each draw of up to 14 features, else annealed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. Of a row with missing entries (NaN) it is the density of what was observed.
        temperatures : int, default=10
            Temperatures of annealed importance sampling, where a draw has more than 14 features.
        runs : int, default=4
            Annealed runs of each row and such draw.
        draws : int, default=20
            Draws of the posterior to average over, at most.

        Returns
        -------
        HeldOut
            With `ln_probability`, `error` and `effective` of each row, `joint` of all of them, and `log_ppd`.
        """
        return self._held_out(*self._asked(X), temperatures, runs, draws)

    def score_samples(self, X):
        """Log density of each row; see `held_out`, which also tells how exact it is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities, in nats.
        """
        return self.held_out(X).ln_probability

    def score(self, X, y=None):
        """Mean log density of a row; see `held_out`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : ignored
            Not used.

        Returns
        -------
        float
            In nats a row; larger is better.
        """
        return float(np.mean(self.score_samples(X)))

    def retrieve(self, Q, X, k=None):
        """Rows that are most like others: those whose codes, as `transform` gives them, are nearest.

        Parameters
        ----------
        Q : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to search.
        k : int or None, default=None
            Rows to find for each query; None ranks all.

        Returns
        -------
        rows : ndarray of shape (n_queries, k)
            Places in X, the most like first; of equals the first comes first.
        similarity : ndarray of shape (n_queries, k)
            Their similarities: minus the Euclidean distances of codes.
        """
        return self._retrieve(self._asked(Q), self._asked(X), k)

    def get_feature_names_out(self, input_features=None):
        """Names of the features.

        Parameters
        ----------
        input_features : ignored
            Checked against the columns of the fit, and not used.

        Returns
        -------
        ndarray of str
            One name a feature.
        """
        return self._coordinate_names(input_features)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is True
        return tags
