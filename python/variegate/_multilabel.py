"""Sets of labels, from groups of rows that share features and labels and from one classifier a label."""

import numpy as np
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from . import _core
from ._base import FamilyEstimator, columns_here, one_target
from ._documented import documented
from ._files import Column
from ._inputs import count, lend, seed_of
from ._label_sets import is_sets, read, read_known
from ._labels import restored, type_of
from ._posterior import Posterior, log_joint_trace
from ._progress import follow
from ._rows import validated
from ._sources import as_array

# arrays of the posterior, and the attributes that they become
_ARRAYS = {
    "weights": "weights_",
    "component_rows": "component_rows_",
    "component_means": "component_means_",
    "label_rates": "label_rates_",
    "label_patterns": "label_patterns_",
    "label_shifts": "label_shifts_",
    "label_dependence": "label_dependence_",
    "coefficients": "coef_",
    "coefficient_deviations": "coef_sd_",
    "bias": "intercept_",
}
# what fits leave behind
_FITTED = (
    "bound_",
    "elbo_trace_",
    "mean_log_probability_",
    "concentration_",
    "posterior_",
    "log_joint_trace_",
    *_ARRAYS.values(),
)


def _by_minibatches(model):
    return model.inference == "svi"


@documented
class MultiLabelMixtureClassifier(ClassifierMixin, TransformerMixin, FamilyEstimator):
    """Sets of labels: groups of rows that share features and labels, and one linear classifier a label.

    The number of groups is not given but learned. Labels depend on one another through the groups, and labels that are
    not known of a row (entry by entry, or all of them) are left open: such rows are used all the same.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels: those in the sets of the fit, names of columns of a DataFrame, or numbers from 0.
    weights_ : ndarray of shape (n_groups,)
        Expected weight of each group, in descending order of their rows.
    component_rows_ : ndarray of shape (n_groups,)
        Expected number of rows of the fit in each group.
    component_means_ : ndarray of shape (n_groups, n_features_in_)
        Expected row of each group, in the units of the columns.
    label_rates_ : ndarray of shape (n_groups, n_labels)
        Share of each label among the rows of each group that know it; NaN where none does.
    label_patterns_ : ndarray of shape (n_groups, n_labels)
        What each group says of each label, whatever the row: the probability of a row of average features ("logit"),
        that it says yes ("and"), or the rate of the label ("cut").
    label_shifts_ : ndarray of shape (n_groups, n_labels)
        Log-odds of each label in each group beside what all groups have in common ("logit", not of draws).
    label_dependence_ : ndarray of shape (n_labels, n_labels)
        How labels depend on one another through groups: the covariance of their rates over groups. Not told of more
        than 2,000 labels.
    coef_, coef_sd_ : ndarray of shape (n_labels, n_features_in_)
        Posterior mean and standard deviation of the weights of each label's classifier, of columns as it sees them
        (`scaling`).
    intercept_ : ndarray of shape (n_labels,)
        Posterior mean of the bias of each label.
    concentration_ : float
        Posterior mean of the concentration of the weights of groups.
    component_names_ : list of str
        Names of the groups as `transform` gives them; the last, "unknown", is none of the others. Draws
        (`inference="gibbs"`) have "others" before it: groups that are not those of the reference draw.
    bound_ : float
        The lower bound on the log evidence that was reached ("vb").
    elbo_trace_ : ndarray of shape (n_iter_,)
        The bound after every sweep of the start that reached it ("vb").
    mean_log_probability_ : float
        Mean log probability of a label in the last pass, predicted before its row was used ("svi").
    posterior_ : Posterior
        The draws, to be looked at or given to ArviZ ("gibbs").
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log joint density of each sweep of each chain ("gibbs").
    n_iter_ : int
        Number of sweeps of that start, of passes, or of sweeps of a chain.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    See Also
    --------
    SoftmaxClassifier : One class a row.

    Notes
    -----
    Rules that choose labels are "hamming" (labels that are at least as likely as not), "micro-f1" (one threshold for
    all rows that are predicted together, that of the highest expected F1), "subset" (the likeliest set among those of
    the fit and those that groups stand for) and "cardinality" (as many of the top labels as are expected). Each suits
    the score that one is judged by.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import MultiLabelMixtureClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> Y = np.c_[X[:, 0] > 0, X[:, 1] > 0, X.sum(axis=1) > 1].astype(float)
    >>> Y[::5, 1] = np.nan  # not known of every fifth row
    >>> model = MultiLabelMixtureClassifier(random_state=1).fit(X, Y)
    >>> model.predict(X).shape, model.predict_proba(X).shape
    ((200, 3), (200, 3))
    >>> model.label_scores(X, Y)["hamming_loss"] < 0.15
    True
    """

    _family = "labels"
    _left_open = ("class_weight",)
    # how labels are chosen once the model is fitted
    _own = {  # noqa: RUF012 — never changed
        "rule": (
            "str or None",
            "How `predict` and `score` choose labels; see the notes. None is the first rule that the model has.",
        ),
        "nonempty": ("bool", "Whether rows without a label are given the one that is ranked first."),
    }

    def __init__(
        self,
        *,
        coupling="logit",
        inference="vb",
        features="auto",
        label_patterns="bernoulli",
        classifier="logistic",
        class_weight=None,
        combine="logodds",
        components=20,
        moves="split-merge",
        max_components=100,
        batches=10,
        concentration=None,
        concentration_shape=1.0,
        concentration_rate=1.0,
        feature_power=1.0,
        prior_count=0.1,
        rate_strength=1.0,
        mean_strength=0.1,
        feature_shape=2.0,
        feature_rate=1.0,
        scaling="auto",
        bias_precision=0.01,
        weight_precision=None,
        precision_shape=0.5,
        precision_rate=0.5,
        pattern_yes=4.0,
        pattern_no=1.0,
        label_strength=1.0,
        label_count=0.01,
        bound="auto",
        covariance="auto",
        label_memory=2.0,
        n_init=3,
        tol=1e-06,
        max_iter=500,
        passes=5,
        batch_rows=None,
        step_delay=1.0,
        step_power=0.7,
        decay=None,
        history="missing",
        n_chains=4,
        n_warmup=500,
        n_draws=250,
        thin=4,
        rule=None,
        nonempty=False,
        random_state=None,
        threads=None,
        block_rows=None,
        engine=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())

    def fit(self, X, y=None, *, target=None, feature_names=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), DataFrame or files
            Features. A C-contiguous float64 array and a CSR matrix are used in place, without a copy. Files are
            Parquet: a path, a pattern such as ``"data/*.parquet"``, or a list of these. With an `engine`, Dask arrays
            and frames too.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels), DataFrame or list of sets
            Labels of each row: a matrix with 1 where a row has a label, 0 where it has not, and NaN or -1 where it is
            not known (what a sparse matrix does not store is 0); or for each row a set of labels, with None where
            nothing is known. A row of zeros, or an empty set, is a row that has no label.
        target : list of str, default=None
            Names of the columns of X that are labels, instead of `y`.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns, where X has none (an array, a sparse matrix): findings are told by them. Later rows
            without names are told by their places.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._forget()
        y = one_target(y, [target] if isinstance(target, str) else target)
        if y is None:
            raise ValueError(
                f"a {type(self).__name__} requires y to be passed, but the target y is None: give `y` or `target`"
            )
        names = y.names if isinstance(y, Column) else None
        if (engine := self._engine()) is not None:
            return self._fit_on(engine, X, y, names, feature_names)
        X, y, _, _, columns = columns_here(X, y)
        X = validated(self, X, reset=True)
        self._name(feature_names, columns)
        classes, entries = read(y, names)
        if len(entries) != X.shape[0]:
            raise ValueError(f"`y` has {len(entries)} rows, but X has {X.shape[0]}: give one a row")
        self._keep(classes)
        return self._fit(X, (entries, self._names()), None, list(getattr(self, "feature_names_in_", [])))

    @available_if(_by_minibatches)
    def partial_fit(self, X, y, *, feature_names=None):
        """Go on with further rows: what was learned stays, and the rows of before are not needed.

        The first call is a fit. There must be ``inference="svi"``. Labels that come with later rows are added to
        `classes_`; of the rows before them they are unknown, or were absent (`history`).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or DataFrame
            Features, with the columns of the first call.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels), DataFrame or list of sets
            Labels, as `y` of `fit`. Columns of a DataFrame and labels in sets are told by their names, columns of a
            matrix by their places. Labels that a matrix or DataFrame lacks are unknown; those that are in no set are
            absent.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns; see `fit`. Of the first call only.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, feature_names=feature_names)
        if self._engine() is not None or self.out is not None:
            raise ValueError("`partial_fit` goes on in memory: leave `engine` and `out` out after the first fit")
        X, y, _, _, _ = columns_here(X, y)
        X = self._rows(X)
        classes, entries = read(y)
        if len(entries) != X.shape[0]:
            raise ValueError(f"`y` has {len(entries)} rows, but X has {X.shape[0]}: give one a row")
        known = set(self._names())
        merged = [*self.classes_.tolist(), *(label for label in classes if str(label) not in known)]
        with follow(self.progress, type(self).__name__, None) as progress:
            self._model = _core.fit_more(
                self._model,
                self._settings(),
                lend(X),
                (entries, [str(label) for label in classes]),
                sets=is_sets(y),
                columns=list(getattr(self, "feature_names_in_", [])),
                seed=seed_of(self.random_state),
                threads=0 if self.threads is None else count("threads", self.threads, 1),
                block_rows=self._block_rows(),
                progress=progress,
            )
        self._keep(merged)
        return self._finish()

    def _fit_on(self, engine, X, y, names, feature_names):
        """Fit with an engine."""
        if names is None and hasattr(y, "columns"):
            names = list(y.columns)
        with engine.hold(X, y=y, block_rows=self._block_rows()) as rows:
            if len(rows.outcomes) != 1:
                raise ValueError("`y` must have a column for each label, of 1, 0 and NaN, where there is an `engine`")
            self._keep(list(range(rows.outcomes[0])) if names is None else names)
            rows.label_names = self._names()
            return self._fit_elsewhere(rows, feature_names=feature_names)

    def _keep(self, classes):
        """Keep the labels, which the Rust side knows by their names."""
        written = [str(label) for label in classes]
        if twice := next((name for at, name in enumerate(written) if name in written[:at]), None):
            raise ValueError(f"two labels are both written {twice!r}: rename one of them")
        self.classes_ = as_array(classes)

    def _names(self):
        return [str(label) for label in self.classes_.tolist()]

    def _label_types(self):
        return {"class_type": type_of(self.classes_)}

    def _open(self, model, types):
        self.classes_ = restored(model.labels, types[0])
        super()._open(model, types)

    def _read(self):
        for name in _FITTED:
            vars(self).pop(name, None)
        arrays = self._model.arrays()
        traces = [chain["objective"] for chain in self._model.trace()]
        self.n_iter_ = max(map(len, traces))
        for name, attribute in _ARRAYS.items():
            if name in arrays:
                setattr(self, attribute, arrays[name])
        if "concentration" in arrays:
            self.concentration_ = float(arrays["concentration"][0])
        if "bound" in arrays:
            self.bound_ = float(arrays["bound"][0])
            self.elbo_trace_ = max(traces, key=lambda trace: trace[-1])
            self.n_iter_ = len(self.elbo_trace_)
        if "mean_log_probability" in arrays:
            self.mean_log_probability_ = float(arrays["mean_log_probability"][0])
        if any(name.endswith("_draws") for name in arrays):
            self.posterior_ = Posterior(self._model)
            self.log_joint_trace_ = log_joint_trace(traces)
        return arrays

    def _target(self, y, rows):
        entries = read_known(y, self.classes_.tolist())
        if len(entries) != rows:
            raise ValueError(f"`y` has {len(entries)} rows, but there are {rows}")
        return entries, self._names()

    def _found(self, X, given=None, rule=None, nonempty=None):
        """What the model says of the labels of rows."""
        X = self._rows(X)
        y = None if given is None else self._target(given, X.shape[0])
        return self._model.predict_labels(lend(X), *self._chosen(rule, nonempty), y)

    def _chosen(self, rule, nonempty):
        """The rule that was asked for, or that of the estimator."""
        rule = self.rule if rule is None else rule
        return "" if rule is None else str(rule), bool(self.nonempty if nonempty is None else nonempty)

    def predict(self, X, *, given=None, rule=None, nonempty=None):
        """Labels of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        given : {array-like, sparse matrix, DataFrame or list of sets}, default=None
            Labels that are known of these rows, as `y` of `fit`: they inform the others.
        rule : str, default=None
            How labels are chosen; None is the `rule` of the estimator.
        nonempty : bool, default=None
            Whether rows without a label are given the one that is ranked first; None is as the estimator says.

        Returns
        -------
        ndarray of int of shape (n_samples, n_labels)
            1 for the labels of a row and 0 for all others, in the order of `classes_`.
        """
        return self._found(X, given, rule, nonempty)["chosen"].astype(np.int64)

    def predict_sets(self, X, *, given=None, rule=None, nonempty=None):
        """Labels of each row as tuples, of the type they had at the fit; see `predict`."""
        classes = self.classes_.tolist()
        return [
            tuple(classes[c] for c in np.flatnonzero(row)) for row in self._found(X, given, rule, nonempty)["chosen"]
        ]

    def predict_proba(self, X, *, given=None):
        """Probability of each label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. What is said of a row depends on that row alone.
        given : {array-like, sparse matrix, DataFrame or list of sets}, default=None
            Labels that are known of these rows, as `y` of `fit`: they inform the others.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probability that a row has a label, in the order of `classes_`; rows do not sum to one.
        """
        return self._found(X, given)["probability"]

    def decision_function(self, X, *, given=None):
        """What labels are ranked by: their probabilities, unless the model has a finer order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        given : {array-like, sparse matrix, DataFrame or list of sets}, default=None
            Labels that are known of these rows; see `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            The higher, the sooner a row has the label.
        """
        return self._found(X, given)["score"]

    def novelty(self, X):
        """How sure it is that rows are like none of the groups of the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probability that a row is of a group that was not there.
        """
        return self._found(X)["novelty"]

    def label_scores(self, X, y, *, rule=None, nonempty=None):
        """How well labels are chosen, ranked and weighed: all that is usually told of sets of labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : {array-like, sparse matrix, DataFrame or list of sets}
            Labels, as `y` of `fit`. Unknown entries leave scores of entries (Hamming loss, micro and macro F1, log
            loss, calibration); rows that hold any leave the others.
        rule, nonempty : default=None
            As those of `predict`.

        Returns
        -------
        dict of str to float or None
            `hamming_loss`, `subset_accuracy`, `example_f1`, `jaccard`, `micro_f1`, `macro_f1`, `ranking_loss`,
            `one_error`, `coverage`, `average_precision`, `log_loss` and `calibration_error`, None where these rows do
            not define it, and the numbers `rows`, `known_rows` and `known_entries`.
        """
        X = self._rows(X)
        return self._model.label_scores(lend(X), self._target(y, X.shape[0]), *self._chosen(rule, nonempty))

    def score(self, X, y, sample_weight=None):
        """Share of rows whose set of labels is exactly right, as scikit-learn scores sets of labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : {array-like, sparse matrix, DataFrame or list of sets}
            Labels, as `y` of `fit`; rows that hold an unknown one do not count.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            Subset accuracy; see `label_scores` for others.
        """
        chosen = self.predict(X)
        entries, _ = self._target(y, len(chosen))
        known = (entries >= 0).all(axis=1)
        if not known.any():
            raise ValueError("`y` has no row whose labels are all known: `label_scores` scores single entries")
        right = (chosen == entries).all(axis=1)[known]
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)[known]))

    @property
    def component_names_(self):
        """Names of the groups."""
        check_is_fitted(self)
        no_row = np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0), self._model.width
        try:
            return self._model.responsibilities(no_row)[0]
        except ValueError as reason:  # draws change them about
            raise AttributeError(str(reason)) from None

    def transform(self, X, y=None):
        """Share of each group in each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : {array-like, sparse matrix, DataFrame or list of sets}, default=None
            Labels that are known of these rows, as `y` of `fit`: with them shares are those given both.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Shares in the order of `component_names_`; rows sum to one.
        """
        X = self._rows(X)
        return self._model.responsibilities(lend(X), None if y is None else self._target(y, X.shape[0]))[1]

    def get_feature_names_out(self, input_features=None):
        """Names of the groups.

        Parameters
        ----------
        input_features : ignored
            Checked against the columns of the fit, and not used.

        Returns
        -------
        ndarray of str
            One name a group.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return np.array(self.component_names_, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags
