"""What the estimators share: checks at the door, the call into Rust, predictions."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _core
from ._inputs import count, lend, plain, seed_of
from ._posterior import to_arviz
from ._progress import follow
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


class FamilyEstimator(BaseEstimator):
    """An estimator over one model family of the Rust library.

    A subclass names its family in `_family`; its constructor takes settings of the family, by the names and with the
    defaults of the family's own table, and the settings of a run: `random_state, threads, block_rows, out, progress`.
    Settings that it fixes are in `_fixed`; those that neither it nor its user names keep the defaults of the table.
    """

    _fixed = {}  # noqa: RUF012 — never changed

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
        return plain(value)

    @classmethod
    def _from_settings(cls, settings):
        """Arguments of the constructor for settings as the family knows them."""
        names = cls._get_param_names()
        return {name: value for name, value in settings.items() if name in names}

    @classmethod
    def _opens(cls, settings):
        """Whether runs with these settings are runs of this estimator."""
        return all(settings.get(name) == value for name, value in cls._fixed.items())

    def _fit(self, X, y, sample_weight, columns, sources=None):
        """Fit to validated rows and encoded targets and sources."""
        with follow(self.progress, type(self).__name__) as progress:
            self._model = _core.fit(
                self._family,
                self._settings(),
                lend(X),
                y,
                sources=sources,
                weights=sample_weight,
                columns=columns,
                seed=seed_of(self.random_state),
                free_seed=self.random_state is None,
                threads=0 if self.threads is None else count("threads", self.threads, 1),
                block_rows=None if self.block_rows is None else count("block_rows", self.block_rows, 1),
                out=self.out,
                progress=progress,
            )
        self._read()
        for warning in self._model.warnings:
            warnings.warn(warning, UserWarning, stacklevel=3)
        summary = self.summary()
        if not summary.converged:
            warnings.warn(" ".join(summary.notes), ConvergenceWarning, stacklevel=3)
        return self

    def _open(self, model):
        """Take over the fitted model of a run."""
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
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)

    def summary(self):
        """What was found and how sure it is.

        Returns
        -------
        Summary
            Print it, or take its `to_frame()` (pandas) or `to_dict()`.
        """
        check_is_fitted(self)
        return Summary(self._model.summary())

    def to_arviz(self):
        """Draws as ArviZ data: InferenceData before ArviZ 1, a DataTree from then on.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Groups `posterior`, with named dimensions, and `sample_stats` (`lp`, and `total_log_likelihood` where it is
            kept).
        """
        check_is_fitted(self)
        if not hasattr(self, "posterior_"):
            raise AttributeError("there are no draws to export: this fit is no sample of the posterior")
        return to_arviz(self._model)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class FamilyClassifier(ClassifierMixin, FamilyEstimator):
    """A classifier over one model family of the Rust library."""

    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. A C-contiguous float64 array and a CSR matrix are used in place, without a copy.
        y : array-like of shape (n_samples,)
            Class of each row: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row: 0 leaves it out, 2 counts it twice.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        self.classes_, codes = _encode(y, sample_weight)
        self._check_classes()
        X, columns = self._map(X, y)
        names = [str(c) for c in self.classes_.tolist()]
        return self._fit(X, (codes, names), self._class_weights(codes, sample_weight), columns)

    def _check_classes(self):
        """Refuse classes that the family cannot take."""

    def _map(self, X, y):
        """Rows as the model takes them, and names of their columns."""
        return X, list(getattr(self, "feature_names_in_", []))

    def _class_weights(self, codes, sample_weight):
        """Weights of rows, those of their classes included."""
        return sample_weight

    def _open(self, model):
        self.classes_ = np.array(model.classes)
        super()._open(model)

    def _read(self):
        arrays = self._model.arrays()
        self.coef_ = arrays["coef"]
        self.intercept_ = arrays["intercept"]
        self.n_iter_ = max(len(chain["sweep"]) for chain in self._model.trace())
        return arrays

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
        return self._model.predict(lend(X), "" if method is None else str(method))[0]

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
