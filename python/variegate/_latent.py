"""What models of rows alone share: names of hidden coordinates, draws, and how probable rows are."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ._base import FamilyEstimator
from ._inputs import count
from ._posterior import Posterior, log_joint_trace


@dataclass(frozen=True)
class HeldOut:
    """Log probability of rows that a model has not seen.

    Attributes
    ----------
    ln_probability : ndarray of shape (n_samples,)
        Log probability of each row, averaged over the draws; a log density where rows are real numbers.
    error : ndarray of shape (n_samples,)
        Its Monte Carlo standard error.
    effective : ndarray of shape (n_samples,)
        Effective number of annealed runs behind it.
    joint : float
        Log probability of all rows together: the mean over the draws of the product over the rows.
    """

    ln_probability: np.ndarray
    error: np.ndarray
    effective: np.ndarray
    joint: float

    @property
    def log_ppd(self):
        """Mean of minus the log probability of a row, in nats."""
        return -float(np.mean(self.ln_probability))


class LatentModel(TransformerMixin, FamilyEstimator):
    """A model of rows alone, whose rows have hidden coordinates and whose posterior is a sample.

    A subclass says in `_asked` how rows to say something about are handed over: to the model they go with their
    sources, or with None.
    """

    def _read(self):
        arrays = self._model.arrays()
        self.posterior_ = Posterior(self._model)
        self.log_joint_trace_ = log_joint_trace([chain["objective"] for chain in self._model.trace()])
        self.n_iter_ = self.log_joint_trace_.shape[1]
        return arrays

    def _coordinate_names(self, input_features):
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        no_row = np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0), self._model.width
        return np.asarray(self._model.transform(no_row)[0], dtype=object)

    def _row_likelihoods(self, X, y):
        raise ValueError(
            "a row of this model has hidden coordinates of its own, and its likelihood under a draw, the sum over "
            "them, has no closed form: `to_arviz` takes no rows here. `held_out` tells how probable rows are"
        )

    def _held_out(self, rows, sources, temperatures, runs, draws):
        effort = {"temperatures": temperatures, "runs": runs, "draws": draws}
        effort = {name: count(name, value, 1) for name, value in effort.items()}
        return HeldOut(**self._model.held_out(rows, sources, **effort))

    def _retrieve(self, queries, among, k):
        """Rows that are most like queries; both are rows and their sources."""
        most = 2**32 if k is None else count("k", k, 1)
        (queries, of_queries), (among, of_rows) = queries, among
        return self._model.retrieve(queries, among, most, of_queries, of_rows)
