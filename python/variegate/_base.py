"""What the estimators share: checks at the door, the call into Rust, predictions."""

import warnings
from contextlib import contextmanager

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted

from . import _core
from ._dask import checked_engine, refuse_dask
from ._files import Column, column, is_files, split_columns
from ._inputs import chosen_draws, count, laid_out, lend, outside, plain, seed_of
from ._labels import restored, type_of
from ._posterior import to_arviz
from ._progress import follow
from ._rows import validated
from ._summary import Summary


def _encode(y, sample_weight):
    """Classes, ascending, and the position of each row's class among them. A row of weight 0 is as good as removed."""
    classes, codes = np.unique(y, return_inverse=True)
    if sample_weight is not None:
        present = np.bincount(codes, weights=sample_weight != 0) > 0
        if not present.any():
            raise ValueError("every weight in `sample_weight` is zero; at least one row must count")
        classes, codes = classes[present], np.maximum(np.cumsum(present) - 1, 0)[codes]
    if len(classes) < 2:
        raise ValueError(f"a classifier needs rows of at least two classes, but there is one class: {classes[0]!r}")
    return classes, codes.astype(np.uint32)


def one_target(y, target):
    """Give the target, which is said in one of two ways."""
    if target is None:
        return y
    if y is not None:
        raise ValueError("`y` and `target` both say what is to be predicted: give one of them")
    if not (isinstance(target, str) or (isinstance(target, list) and all(isinstance(t, str) for t in target))):
        raise ValueError(f"`target` is {target!r}, but it must be the name of a column (or a list of names)")
    return Column("target", target)


def columns_here(X, y=None, weights=None, sources=None):
    """Take rows apart that are here: columns that are named, and files, are read.

    Gives X, y, weights, sources, and the names of columns where X has lost them.
    """
    refuse_dask(X, y, weights, sources)
    given = y, weights, sources
    if not is_files(X) and not any(isinstance(value, Column) for value in given):
        return X, *given, None
    X, found, columns = split_columns(X, given)
    return X, *found, None if columns is None else np.array(columns, dtype=object)


def checked_names(feature_names, width, own=None):
    """Names of the columns as a list, or None where none are given.

    Parameters
    ----------
    feature_names : array-like of str or None
        As they were given.
    width : int
        Number of columns.
    own : sequence of str or None
        Names that the columns have already.
    """
    if feature_names is None:
        return None
    if isinstance(feature_names, str):
        raise ValueError(f"`feature_names` is {feature_names!r}, but it must be a list of names, one a column")
    names = list(feature_names)
    if odd := [name for name in names if not isinstance(name, str) or not name]:
        raise ValueError(f"`feature_names` holds {odd[0]!r}, but every name must be a text that is not empty")
    if len(names) != width:
        raise ValueError(f"`feature_names` has {len(names)} names, but X has {width} columns: give each one name")
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"`feature_names` has {twice!r} twice: names of columns must differ")
    if own is not None and len(own) > 0 and list(own) != names:
        raise ValueError("`feature_names` are not the names that the columns of X have already: leave them out")
    return [str(name) for name in names]


class FamilyEstimator(BaseEstimator):
    """An estimator over one model family of the Rust library.

    A subclass names its family in `_family`; its constructor takes settings of the family, by the names and with the
    defaults of the family's own table, and the settings of a run: `random_state, threads, block_rows, engine, out,
    progress`. Settings that it fixes are in `_fixed`; those that neither it nor its user names keep the defaults of the
    table. Settings in `_left_open` have the word none, which is None in Python.
    """

    _fixed = {}  # noqa: RUF012 — never changed
    _left_open = ()

    def _store(self, given):
        """Keep what the constructor was given, which is all that it may do: `self._store(locals())`."""
        for name, value in given.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _settings(self):
        """Settings as the family knows them."""
        own = self.get_params(deep=False)
        names = [s["name"] for s in _core.family_info(self._family)["settings"]]
        return {name: self._setting(name, own[name]) for name in names if name in own} | self._fixed

    def _setting(self, name, value):
        """One setting as the family knows it."""
        return "none" if value is None and name in self._left_open else plain(value)

    @classmethod
    def _from_settings(cls, settings):
        """Arguments of the constructor for settings as the family knows them."""
        names = cls._get_param_names()
        nothing = {name: None for name in cls._left_open if name in names and settings.get(name) == "none"}
        return {name: value for name, value in settings.items() if name in names} | nothing

    @classmethod
    def _opens(cls, settings):
        """Whether runs with these settings are runs of this estimator."""
        return all(settings.get(name) == value for name, value in cls._fixed.items())

    def _fit(self, X, y, sample_weight, columns, sources=None):
        """Fit to validated rows and encoded targets and sources."""
        with follow(self.progress, type(self).__name__, self._schedule()) as progress:
            self._model = _core.fit(
                self._family,
                self._settings(),
                lend(X),
                y,
                sources=sources,
                weights=None if sample_weight is None else laid_out(sample_weight),
                columns=columns,
                seed=seed_of(self.random_state),
                free_seed=self.random_state is None,
                threads=0 if self.threads is None else count("threads", self.threads, 1),
                block_rows=self._block_rows(),
                out=self.out,
                progress=progress,
                **self._label_types(),
            )
        return self._finish()

    def _name(self, feature_names, columns):
        """Keep the names of columns that were given or that X has lost on the way."""
        if columns is not None:
            self.feature_names_in_ = columns
        names = checked_names(feature_names, self.n_features_in_, getattr(self, "feature_names_in_", None))
        self._by_place = names is not None
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @contextmanager
    def _places_do(self):
        """Where names were given beside an array, later arrays need none: no warning that they lack them."""
        with warnings.catch_warnings():
            if getattr(self, "_by_place", False):
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
            yield

    def _fit_elsewhere(self, rows, class_weight=None, feature_names=None):
        """Fit to rows that are with an engine."""
        self.n_features_in_ = rows.width
        if names := checked_names(feature_names, rows.width, rows.columns):
            rows.columns = names
        self._by_place = feature_names is not None
        vars(self).pop("feature_names_in_", None)
        if rows.columns:
            self.feature_names_in_ = np.array(rows.columns, dtype=object)
        rows.encode(class_weight)
        with follow(self.progress, type(self).__name__, self._schedule()) as progress:
            self._model = _core.fit_elsewhere(
                self._family,
                self._settings(),
                rows,
                seed=seed_of(self.random_state),
                free_seed=self.random_state is None,
                out=self.out,
                progress=progress,
                **self._label_types(),
            )
        return self._finish()

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_model")

    def _forget(self):
        """Forget an earlier fit, so that one that fails leaves no mixture of both."""
        vars(self).pop("_model", None)

    def _label_types(self):
        """Give the types of labels that a run is to remember, by name."""
        return {}

    def _schedule(self):
        """Sweeps of the warm-up, draws and sweeps a draw, where there are such settings."""
        found = [getattr(self, name, None) for name in ("n_warmup", "n_draws", "thin")]
        return tuple(found) if all(isinstance(n, (int, np.integer)) for n in found) else None

    def _engine(self):
        """The engine, or None for threads."""
        return checked_engine(self.engine, self.threads)

    def _block_rows(self):
        return None if self.block_rows is None else count("block_rows", self.block_rows, 1)

    def _finish(self):
        """Read what was fitted, and say what its user should know."""
        self._read()
        summary = self.summary()
        for warning in [*self._model.warnings, *summary.warnings]:
            warnings.warn(warning, UserWarning, stacklevel=outside())
        if not summary.converged:
            warnings.warn(" ".join(summary.notes), ConvergenceWarning, stacklevel=outside())
        return self

    def _open(self, model, types):
        """Take over the fitted model of a run, which remembers the types of classes and sources."""
        self._model = model
        self.n_features_in_ = model.width
        if model.columns:
            self.feature_names_in_ = np.array(model.columns, dtype=object)
        self._read()

    def _read(self):
        """Set the fitted attributes from `self._model`; gives its arrays."""
        raise NotImplementedError

    def _rows(self, X):
        """Rows to say something about, as the model takes them."""
        check_is_fitted(self)
        with self._places_do():
            return validated(self, X, reset=False)

    def _target(self, y, rows):
        """Outcomes as the model takes them."""
        raise NotImplementedError

    def summary(self):
        """What was found and how sure it is.

        Returns
        -------
        Summary
            Print it, or take its `to_frame()` (pandas) or `to_dict()`.
        """
        check_is_fitted(self)
        return Summary(self._model.summary())

    def to_arviz(self, X=None, y=None):
        """Draws as ArviZ data: InferenceData before ArviZ 1, a DataTree from then on.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to add the log likelihood of: those of the fit for `arviz.loo`, since a fitted model does not keep
            them.
        y : array-like, default=None
            Their outcomes.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Groups `posterior`, with named dimensions, `sample_stats` (`lp`, and `total_log_likelihood` where it is
            kept), and with X and y `log_likelihood`: `y` of shape (chain, draw, row). A weight of a row is not in it.
        """
        check_is_fitted(self)
        if not hasattr(self, "posterior_"):
            raise AttributeError("there are no draws to export: this fit is no sample of the posterior")
        if X is None and y is None:
            return to_arviz(self._model)
        return to_arviz(self._model, self._row_likelihoods(X, y))

    def _row_likelihoods(self, X, y):
        """Log likelihood of rows under each draw, and the lengths of the chains."""
        if X is None or y is None:
            raise ValueError("the log likelihood of rows needs both their features `X` and their outcomes `y`")
        X = self._rows(X)
        return self._model.row_likelihoods(lend(X), self._target(y, X.shape[0]))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class FamilyClassifier(ClassifierMixin, FamilyEstimator):
    """A classifier over one model family of the Rust library."""

    def fit(self, X, y=None, sample_weight=None, *, target=None, feature_names=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), DataFrame or files
            Features. A C-contiguous float64 array and a CSR matrix are used in place, without a copy. Files are
            Parquet: a path, a pattern such as ``"data/*.parquet"``, or a list of these. With an `engine`, Dask arrays
            and frames too.
        y : array-like of shape (n_samples,)
            Class of each row: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Weight of each row: 0 leaves it out, 2 counts it twice. Or the name of a column of X.
        target : str, default=None
            Name of the column of X that is the class of each row, instead of `y`.
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
            return self._fit_on(engine, X, y, column("sample_weight", sample_weight), feature_names)
        X, y, sample_weight, _, columns = columns_here(X, y, column("sample_weight", sample_weight))
        X, y = validated(self, X, y, reset=True)
        self._name(feature_names, columns)
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        self.classes_, codes = _encode(y, sample_weight)
        self._check_classes()
        X, columns = self._map(X, y)
        names = [str(c) for c in self.classes_.tolist()]
        return self._fit(X, (codes, names), self._class_weights(codes, sample_weight), columns)

    def _fit_on(self, engine, X, y, sample_weight, feature_names):
        """Fit with an engine."""
        if y is None:
            raise ValueError(f"a {type(self).__name__} needs a class for each row: give `y` or `target`")
        with engine.hold(X, y=y, weights=sample_weight, classified=True, block_rows=self._block_rows()) as rows:
            if len(rows.classes) == 0:
                raise ValueError("every weight in `sample_weight` is zero; at least one row must count")
            if len(rows.classes) < 2:
                raise ValueError(
                    f"a classifier needs rows of at least two classes, but there is one class: {rows.classes[0]!r}"
                )
            check_classification_targets(rows.classes)
            self.classes_ = rows.classes
            self._check_classes()
            return self._fit_elsewhere(rows, self._weights_of_classes(rows.totals), feature_names)

    def _weights_of_classes(self, totals):
        """By what weights of rows are multiplied, one a class; None by nothing. `totals` are sums of weights."""

    def _check_classes(self):
        """Refuse classes that the family cannot take."""

    def _map(self, X, y):
        """Rows as the model takes them, and names of their columns."""
        return X, list(getattr(self, "feature_names_in_", []))

    def _class_weights(self, codes, sample_weight):
        """Weights of rows, those of their classes included."""
        return sample_weight

    def _label_types(self):
        return {"class_type": type_of(self.classes_)}

    def _open(self, model, types):
        self.classes_ = restored(model.classes, types[0])
        super()._open(model, types)

    def _read(self):
        arrays = self._model.arrays()
        self.coef_ = arrays["coef"]
        self.intercept_ = arrays["intercept"]
        self.n_iter_ = max(len(chain["sweep"]) for chain in self._model.trace())
        return arrays

    def _target(self, y, rows):
        """Classes as the model takes them."""
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        if y.shape != (rows,):
            raise ValueError(f"`y` has the shape {y.shape}, but there are {rows} rows")
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(f"`y` holds {y[~known].tolist()[0]!r}, which is not one of the classes of the fit")
        return np.searchsorted(self.classes_, y).astype(np.uint32), [str(c) for c in self.classes_.tolist()]

    def _from_draws(self, X, level=None):
        """Mean, standard deviation and interval of class probabilities over posterior draws."""
        X = self._rows(X)
        drawn = "mc" if "mc" in self._model.methods else ""
        found = self._model.predict(lend(X), drawn, chosen_draws(self.predict_draws), level)
        if found[1] is None:
            raise ValueError(
                "the fit is a point estimate, which has no posterior and does not say how sure it is: fit with an "
                '`inference` other than "map"'
            )
        return found

    def predict_proba_std(self, X):
        """Posterior standard deviation of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            How uncertain each probability of `predict_proba` is. Where `inference` is "map" there is no posterior, and
            this is an error.
        """
        return self._from_draws(X)[1]

    def predict_interval(self, X, level=0.9):
        """Posterior intervals of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        level : float, default=0.9
            Posterior probability that a class probability lies in its interval, which is equal-tailed: 0.9 is from
            the 5 % to the 95 % quantile over the draws (all of them unless `predict_draws` is given; a variational
            posterior is drawn from).

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
            Lower and upper ends along the last axis. Where `inference` is "map" there is no posterior, and this is an
            error.
        """
        return self._from_draws(X, float(level))[2]

    def predict_proba(self, X, method=None):
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. What is said of a row depends on that row alone.
        method : str, default=None
            How the posterior is averaged; see the class. None is the default method.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        X = self._rows(X)
        method = "" if method is None else str(method)
        # a closed form and a point need no draws
        drawn = (method or self._model.methods[0]) in ("average", "mc")
        return self._model.predict(lend(X), method, chosen_draws(self.predict_draws) if drawn else None)[0]

    def predict_log_proba(self, X, method=None):
        """Logarithms of the class probabilities; see `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, method))

    def predict(self, X):
        """Most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes, of the type they had at the fit.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
