"""Factors that several data sources share."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._base import columns_here
from ._documented import documented
from ._files import column
from ._inputs import lend, seed_of
from ._labels import restored, type_of
from ._latent import LatentModel
from ._rows import validated
from ._sources import as_array, distinct, encode, is_several, stack


@documented
class SharedFactorModel(LatentModel):
    """Factors that several data sources share: nonparametric hierarchical factor analysis.

    Several sources (journal sections, hospitals, shops) describe different items by the same columns. Every row is a
    sparse combination of factors, whose number is not given but learned; each source has its own probability of using
    each factor, and the sources borrow these from one another (a restricted hierarchical beta process). A source with
    few rows takes factors from the others without being forced to. Counts have gamma factors and a Poisson likelihood,
    real numbers Gaussian ones. Draws are from the exact posterior by Markov chains, in parallel over rows.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    components_ : ndarray of shape (n_factors_, n_features)
        The factors of the reference draw, averaged over the draws that have them too; each sums to one (counts) or has
        length one (real numbers).
    sharing_ : ndarray of shape (n_sources, n_factors_)
        Probability that each source uses each factor.
    mass_ : ndarray of shape (n_sources, n_factors_)
        Share of what was fitted in each source that each factor carries.
    shared_ : ndarray of shape (n_sources, n_sources)
        Expected number of factors that both of two sources use; on the diagonal, that one uses.
    sources_ : ndarray of shape (n_sources,)
        The sources, of the type their labels have.
    n_factors_ : int
        Number of factors of the reference draw.
    n_factors_draws_ : ndarray of shape (n_chains * n_draws,)
        Number of factors in each draw, of all chains one after the other.
    posterior_ : Posterior
        The draws as arrays (chain, draw, ...): `n_factors`, `log_joint`, `mass`, `concentration`... Factors themselves
        have no fixed order from draw to draw.
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
    Rows of a source that the fit has not seen, and rows without a source where the fit had several, are rows of a new
    source. `held_out` and `score_samples` of counts are probabilities of bags of counts: they compare models of this
    kind, and not with the perplexity of a topic model, which is that of a sequence of words. `score` and `perplexity`
    are document completion, by which any models of counts can be compared.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import SharedFactorModel
    >>> rng = np.random.default_rng(0)
    >>> factors = np.kron(np.eye(3), np.ones(4))
    >>> used = {"a": [0, 1], "b": [1, 2]}
    >>> sources = np.repeat(["a", "b"], 40)
    >>> weights = np.zeros((80, 3))
    >>> for row, source in enumerate(sources):
    ...     weights[row, used[source]] = rng.gamma(1.0, 5.0, size=2)
    >>> X = rng.poisson(weights @ factors + 0.1)
    >>> model = SharedFactorModel(n_warmup=50, n_draws=20, random_state=1).fit(X, sources=sources)
    >>> model.transform(X, sources=sources).shape == (80, model.n_factors_)
    True
    >>> model.sources_.tolist()
    ['a', 'b']
    """

    _family = "factors"

    def __init__(
        self,
        *,
        likelihood="poisson",
        sampler="parallel",
        mass=1.0,
        learn_mass=False,
        concentration_shape=1.0,
        concentration_rate=1.0,
        atom_shape=0.3,
        learn_shape=True,
        weight_shape=1.0,
        scale_shape=1.0,
        scale_rate=1.0,
        background_shape=1.0,
        background_rate=None,
        center=True,
        missing=False,
        split_merge=None,
        birth_rows=None,
        max_factors=None,
        start_factors=1,
        n_chains=2,
        n_warmup=200,
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

    def fit(self, X, y=None, sources=None, *, feature_names=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), a list of these, DataFrame or files
            Rows. A C-contiguous float64 array and a CSR matrix are used in place, without a copy. A list of matrices
            has one a source. Files are Parquet: a path, a pattern such as ``"data/*.parquet"``, or a list of these.
            With an `engine`, Dask arrays and frames too.
        y : ignored
            Not used: there is nothing to predict.
        sources : array-like of shape (n_samples,) or str, default=None
            Where each row comes from: labels of any hashable type, or the name of a column of X. With a list of
            matrices, one label a matrix (None counts them from 0). None takes all rows as one source.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns, where X has none (an array, a sparse matrix): factors are told by them. Later rows
            without names are told by their places.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._forget()
        if (engine := self._engine()) is not None:
            if is_several(X):
                raise ValueError("with an `engine`, rows of several sources are one table: put them under one another")
            with engine.hold(X, sources=column("sources", sources), block_rows=self._block_rows()) as rows:
                self._labels = rows.labels
                return self._fit_elsewhere(rows, feature_names=feature_names)
        known = columns = None
        if is_several(X):
            X, sources, known = stack(X, sources)
        else:
            X, _, _, sources, columns = columns_here(X, sources=column("sources", sources))
        X = self._validated(X, reset=True)
        self._name(feature_names, columns)
        if sources is None:
            self._labels, given = None, None
        else:
            # a list of matrices names its sources in the order that its user gave them
            self._labels = distinct(sources) if known is None else known
            given = encode(sources, self._labels, X.shape[0])
        return self._fit(X, None, None, list(getattr(self, "feature_names_in_", [])), given)

    def _validated(self, X, reset):
        with self._places_do():
            return validated(
                self,
                X,
                reset=reset,
                missing=self.missing is True,
                advice=", let the model draw them with `missing=True`" if self.likelihood == "gaussian" else "",
                # nothing is left of one row when its mean is taken off
                ensure_min_samples=2 if reset and self.likelihood == "gaussian" and self.center is True else 1,
            )

    def _label_types(self):
        return {} if self._labels is None else {"source_type": type_of(self._labels)}

    def _open(self, model, types):
        self._labels = restored(model.sources, types[1]).tolist()
        super()._open(model, types)

    def _read(self):
        arrays = super()._read()
        self.sources_ = as_array(self._model.sources if self._labels is None else self._labels)
        for name in ("components", "sharing", "mass", "shared", "n_factors_draws"):
            setattr(self, f"{name}_", arrays[name])
        self.n_factors_ = self.components_.shape[0]
        return arrays

    def _asked(self, X, sources):
        """Rows to say something about and their sources, as the model takes them."""
        check_is_fitted(self)
        if is_several(X):
            if sources is None and len(X) != len(self.sources_):
                known = len(self.sources_)
                raise ValueError(f"there are {len(X)} matrices, but {known} sources: name that of each with `sources`")
            X, sources, _ = stack(X, self.sources_ if sources is None else sources)
        X = self._validated(X, reset=False)
        return lend(X), None if sources is None else encode(sources, self.sources_.tolist(), X.shape[0])

    def _coordinates(self, X, sources):
        rows, given = self._asked(X, sources)
        return self._model.transform(rows, given)[1]

    def transform(self, X, sources=None):
        """Coordinates of rows in the space of factors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows. What is said of a row depends on that row and its source alone.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from. With a list of matrices, one label a matrix (None takes `sources_`).

        Returns
        -------
        ndarray of shape (n_samples, n_factors_)
            How much of each factor is in each row, on average over the posterior.
        """
        return self._coordinates(X, sources)

    def fit_transform(self, X, y=None, sources=None, *, feature_names=None):
        """Fit the model and give the coordinates of the same rows; see `fit` and `transform`."""
        return self.fit(X, y, sources, feature_names=feature_names)._coordinates(X, sources)

    def get_feature_names_out(self, input_features=None):
        """Names of the factors.

        Parameters
        ----------
        input_features : ignored
            Checked against the columns of the fit, and not used.

        Returns
        -------
        ndarray of str
            One name a factor.
        """
        return self._coordinate_names(input_features)

    def held_out(self, X, sources=None, *, temperatures=10, runs=4, draws=20):
        """Log probability of rows that the fit has not seen, by annealed importance sampling.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from.
        temperatures : int, default=10
            Temperatures between where a row begins and its posterior.
        runs : int, default=4
            Annealed runs of each row and draw.
        draws : int, default=20
            Draws of the posterior to average over, at most.

        Returns
        -------
        HeldOut
            With `ln_probability`, `error` and `effective` of each row, `joint` of all of them, and `log_ppd`.
        """
        return self._held_out(*self._asked(X, sources), temperatures, runs, draws)

    def score_samples(self, X, sources=None):
        """Log probability of each row; see `held_out`, which also tells how exact it is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log probabilities, in nats.
        """
        return self.held_out(X, sources).ln_probability

    def score(self, X, y=None, sources=None):
        """How well rows are predicted that the fit has not seen.

        Of counts it is the mean log probability of a count that was held back: half of each row's counts is shown, the
        other half is to be predicted (see `perplexity`, whose negative logarithm it is). Of real numbers it is the mean
        log density of a row, and of what was observed of it with `missing` (see `held_out`). The log probability of
        whole rows of counts takes far longer: ask `held_out` for it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows.
        y : ignored
            Not used.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from.

        Returns
        -------
        float
            In nats a count or a row; larger is better.
        """
        if self.likelihood != "poisson":
            return float(np.mean(self.score_samples(X, sources)))
        return -float(np.log(self.perplexity(X, sources)))

    def impute(self, X, sources=None, *, return_std=False):
        """Fill in missing entries (NaN) by the means of their posterior distributions. For a fit with `missing`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows. What is said of a row depends on that row and its source alone.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from.
        return_std : bool, default=False
            Whether standard deviations are given too.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows without gaps; what was observed is as it was.
        std : ndarray of shape (n_samples, n_features)
            Standard deviations of what was filled in, and 0 elsewhere. With `return_std` alone.
        """
        rows, given = self._asked(X, sources)
        filled, deviation = self._model.impute(rows, given)
        return (filled, deviation) if return_std else filled

    def complete(self, X, sources=None, exposure=0.5):
        """Distribution over columns of what is still to come of each row, given a part of it. For counts.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            The part of each row that was seen.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from.
        exposure : float, default=0.5
            Share of the whole row that was seen.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Probabilities; rows sum to one.
        """
        rows, given = self._asked(X, sources)
        return self._model.complete(rows, float(exposure), given)

    def perplexity(self, X, sources=None, random_state=0):
        """Document-completion perplexity: half of each row's counts is shown, the other half is to be predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows of counts.
        sources : array-like of shape (n_samples,), default=None
            Where each row comes from.
        random_state : int, RandomState or None, default=0
            Seed of the halves. The same one splits the same rows alike for every model.

        Returns
        -------
        float
            Smaller is better; guessing has the number of columns.
        """
        rows, given = self._asked(X, sources)
        held, ln_probability = self._model.completion(rows, seed_of(random_state), given)
        with np.errstate(invalid="ignore"):  # rows without a count
            return float(np.exp(-np.divide(ln_probability.sum(), held.sum())))

    def retrieve(self, Q, X, k=None, *, query_sources=None, sources=None):
        """Rows that are most like others: by the cosine of their coordinates, averaged over the draws.

        Parameters
        ----------
        Q : {array-like, sparse matrix} of shape (n_queries, n_features), or a list of these
            Queries.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or a list of these
            Rows to search.
        k : int or None, default=None
            Rows to find for each query; None ranks all.
        query_sources, sources : array-like, default=None
            Where queries and rows come from.

        Returns
        -------
        rows : ndarray of shape (n_queries, k)
            Places in X, the most like first; of equals the first comes first.
        similarity : ndarray of shape (n_queries, k)
            Their similarities.
        """
        return self._retrieve(self._asked(Q, query_sources), self._asked(X, sources), k)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.likelihood == "poisson"
        tags.input_tags.allow_nan = self.missing is True
        return tags
