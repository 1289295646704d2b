"""What the estimators with hidden components share, and those over trees of softmax nodes among them."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_is_fitted

from ._base import FamilyClassifier, FamilyEstimator
from ._class_weights import ClassWeights
from ._inputs import lend, sizes
from ._posterior import Posterior, log_joint_trace
from ._selection import selection_table


def is_transformer(value):
    return hasattr(value, "fit") and hasattr(value, "transform") and not isinstance(value, type)


class ComponentEstimator(FamilyEstimator):
    """An estimator with hidden components: input maps, components, selection."""

    def _fit_elsewhere(self, rows, class_weight=None, feature_names=None):
        vars(self).pop("input_map_", None)
        if is_transformer(self.input_map):
            raise ValueError(
                "`input_map` is a transformer, which is fitted to all rows in one place: with an `engine`, transform "
                "the rows before the fit"
            )
        return super()._fit_elsewhere(rows, class_weight, feature_names)

    def _map(self, X, y):
        columns = list(getattr(self, "feature_names_in_", []))
        vars(self).pop("input_map_", None)
        if not is_transformer(self.input_map):
            return X, columns
        mapped = clone(self.input_map).fit(X, y)
        X = self._mapped(mapped, X)
        self.input_map_ = mapped
        try:
            names = mapped.get_feature_names_out(columns or None)
        except AttributeError:
            return X, []
        return X, [str(name) for name in names]

    @staticmethod
    def _mapped(transformer, X):
        X = transformer.transform(X)
        return check_array(X, accept_sparse="csr", dtype=np.float64, order="C", input_name="what `input_map` gives")

    def _rows(self, X):
        X = super()._rows(X)
        return self._mapped(self.input_map_, X) if hasattr(self, "input_map_") else X

    def _read(self):
        arrays = self._model.arrays()
        traces = [chain["objective"] for chain in self._model.trace()]
        if "elbo" in arrays:
            self.bound_ = float(arrays["elbo"][0])
            self.elbo_trace_ = traces[int(arrays["chain"][0])]
        if any(name.endswith("_draws") for name in arrays):
            self.posterior_ = Posterior(self._model)
            self.log_joint_trace_ = log_joint_trace(traces)
        self.n_iter_ = len(self.elbo_trace_) if "elbo" in arrays else max(map(len, traces))
        if "shares" in arrays:
            self.shares_ = arrays["shares"]
        self.structure_ = self._chosen_structure()
        return arrays

    def _chosen_structure(self):
        selection = self._model.selection()
        if selection is None:  # stopped before anything was done, or sampled
            return self.summary().facts.get("structure", "")
        return selection["rows"][selection["chosen"]][0]

    @property
    def selection_(self):
        """The structures that were compared."""
        check_is_fitted(self)
        return selection_table(self._model.selection())

    @property
    def component_names_(self):
        """Names of the hidden components."""
        check_is_fitted(self)
        no_row = np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0), self._model.width
        try:
            return self._model.responsibilities(no_row)[0]
        except ValueError as reason:  # draws change them about
            raise AttributeError(str(reason)) from None

    def responsibilities(self, X, y=None):
        """Share of each hidden component (subclass, expert, path of a tree) in each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like, default=None
            Outcomes. With them shares are those given features and outcome, else those given the features alone.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Shares in the order of `component_names_`; rows sum to one.
        """
        X = self._rows(X)
        return self._model.responsibilities(lend(X), None if y is None else self._target(y, X.shape[0]))[1]


class ComponentClassifier(ClassWeights, ComponentEstimator, FamilyClassifier):
    """A classifier with hidden components."""

    def _read(self):
        arrays = super()._read()
        for name in ("coef", "intercept", "coef_sd", "intercept_sd"):
            if name in arrays:
                setattr(self, f"{name}_", arrays[name])
        return arrays


class TreeEstimator(ComponentEstimator):
    """An estimator of the family `softmax`: settings in their Python forms.

    `_structures` names the settings that say which tree is fitted, if there are any.
    """

    _family = "softmax"
    _fixed = {"task": "classification"}  # noqa: RUF012 — never changed
    _left_open = ("input_map", "class_weight")
    _structures = ()

    def _setting(self, name, value):
        if name in ("subclasses", "experts"):
            return sizes(value)
        # what is no word is applied to the rows
        done = (name == "input_map" and is_transformer(value)) or (name == "class_weight" and isinstance(value, dict))
        return super()._setting(name, None if done else value)

    @classmethod
    def _opens(cls, settings):
        structured = not cls._structures or any(settings[name] is not None for name in cls._structures)
        return super()._opens(settings) and structured


class TreeClassifier(TreeEstimator, ComponentClassifier):
    """A classifier of the family `softmax`."""
