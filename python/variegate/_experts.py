"""Classification by experts behind gates."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._documented import documented
from ._inputs import lend, plain
from ._posterior import Posterior, log_joint_trace
from ._trees import TreeClassifier, is_transformer

_RUN = ("random_state", "threads", "block_rows", "out", "progress")
# what a fit may leave behind: a second fit of another kind must not show it
_FITTED = (
    "coef_",
    "intercept_",
    "coef_sd_",
    "intercept_sd_",
    "gate_coef_",
    "gate_intercept_",
    "angles_",
    "gate_angles_",
    "diversity_",
    "shares_",
    "bound_",
    "elbo_trace_",
    "posterior_",
    "log_joint_trace_",
)


@documented
class MixtureOfExpertsClassifier(TreeClassifier):
    """Mixture of experts that keep apart: a softmax gate chooses between linear classifiers, each for its own region.

    The gate gives each expert a probability in the columns x, and each expert its own class probabilities; which expert
    a row belongs to is not observed. The prior keeps the directions of the experts' weights apart from one another, so
    that few experts go far and rare patterns can have one of their own: a chain of directions, each away from the sum
    of those before it (`prior="mutual-angular"`, the default, and "mutual-angular-1"), or a determinant
    ("determinantal"). With prior "gaussian" they are independent.

    There are two ways to fit. With prior "gaussian" and inference "vb" it is the tree of softmax nodes by variational
    Bayes, which can also choose the number of experts (`experts="auto:5"`); everything else is sampled ("hmc", "gibbs",
    "mh"), approximated ("vb"), regularised ("pr") or maximised ("map") by a family of its own. Each way has settings of
    its own: what is None takes the default of the way, in brackets below, and a setting that the way does not have is
    refused.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    angles_ : ndarray of shape (n_draws, n_pairs)
        Angles between the weights of each pair of experts, in radians, ascending in each draw (of all chains, one after
        the other), so that they do not depend on the labels of experts. Not of trees.
    gate_angles_ : ndarray of shape (n_draws, n_pairs)
        The same of the gates, against their mean.
    diversity_ : dict of str to dict
        How far apart `"experts"` and `"gates"` are: mean, smallest and variance of the angles and of the non-obtuse
        angles, and the mutual angular regulariser, each with its posterior `mean`, `5%` and `95%`. Not of trees.
    coef_ : ndarray
        Where experts have labels (inference "vb", "pr" and "map"): coefficients of each expert, of shape (n_experts, 1,
        n_features) for two classes, as log-odds of the second, and (n_experts, n_classes - 1, n_features) in contrasts
        for more. Of a tree, shape (n_experts + n_experts * n_classes, n_features): first those of the gate, each expert
        against the mean of all, then those of each expert, each class against the mean of all.
    intercept_ : ndarray
        The intercepts, in the same order.
    gate_coef_, gate_intercept_ : ndarray of shape (n_experts, n_features) and (n_experts,)
        Those of the gates, against their mean, where they are not part of `coef_`.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations, of trees.
    posterior_ : Posterior
        The draws as arrays (chain, draw, ...), where `inference` is a sampler: `expert_coef`, `gate_coef`, `angles`,
        `log_joint`... Labels of experts mean nothing from draw to draw.
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log joint density of every sweep of a sampler, warm-up included.
    bound_ : float
        Where `inference` is "vb" or "pr" the lower bound on the log evidence that was reached, where it is "map" the
        penalised log likelihood.
    elbo_trace_ : ndarray of shape (n_iter_,)
        The same after every sweep of the ascent that was chosen.
    structure_ : str
        The structure that was fitted or chosen.
    selection_ : DataFrame or list of dict
        The numbers of experts that were compared, where a tree was to choose one.
    shares_ : ndarray of shape (n_experts,)
        Share of the rows that each expert has, of trees.
    component_names_ : list of str
        Names of the experts.
    n_iter_ : int
        Number of sweeps of the ascent that was chosen, or of a chain.
    input_map_ : object
        The fitted transformer, where `input_map` is one.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    See Also
    --------
    HierarchicalMixtureOfExpertsClassifier : Experts behind a tree of gates.
    MixtureOfExpertsRegressor : The same for real outcomes.

    Notes
    -----
    Methods of `predict_proba` are "average" (over the draws, the default) and "plug-in" (at the draw of highest
    density, at the posterior mean, or at the maximum); of trees "probit", "mc" and "map", as those of
    `SoftmaxClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import MixtureOfExpertsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0)
    >>> model = MixtureOfExpertsClassifier(experts=2, inference="map", random_state=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> tree = MixtureOfExpertsClassifier(prior="gaussian", inference="vb", experts="auto:3", random_state=1)
    >>> tree.fit(X, y).structure_
    '2 experts'
    """

    _structure = "experts"
    _tables = ("experts", "softmax")

    def __init__(
        self,
        *,
        prior="mutual-angular",
        inference="hmc",
        experts=5,
        kappa=None,
        gate_kappa=None,
        alpha1=None,
        alpha2=None,
        omega1=None,
        omega2=None,
        tau=None,
        tau0=None,
        ell=None,
        l2=None,
        diversity=None,
        gate_diversity=None,
        gamma=None,
        delta=None,
        intercept=None,
        scale=None,
        hyper=None,
        gate_bound=None,
        max_steps=None,
        target_accept=None,
        metric=None,
        inner=None,
        n_init=None,
        max_iter=None,
        tol=None,
        n_chains=None,
        n_warmup=None,
        n_draws=None,
        thin=None,
        bound=None,
        coding=None,
        covariance=None,
        precision=None,
        prior_precision=None,
        gate_precision=None,
        a0=None,
        b0=None,
        bias_precision=None,
        standardize=None,
        input_map=None,
        class_weight=None,
        map_penalty=None,
        n_vb=None,
        anneal=None,
        criterion=None,
        folds=None,
        random_state=None,
        threads=None,
        block_rows=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())

    @property
    def _family(self):
        """The family that is fitted."""
        return "softmax" if self.prior == "gaussian" and self.inference == "vb" else "experts"

    def _settings(self):
        family = self._family
        names = {s["name"] for s in _core.family_info(family)["settings"]}
        given = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in _RUN and (value is not None or name == "experts")
        }
        if family == "softmax":
            given.pop("prior")
        else:  # these two need nothing of the family: rows are weighted and mapped before it sees them
            given.pop("class_weight", None)
            if is_transformer(self.input_map):
                del given["input_map"]
        for name, value in given.items():
            if name not in names:
                raise ValueError(
                    f"`{name}` is {value!r}, but it must be left out with prior {self.prior!r} and inference "
                    f"{self.inference!r}, which do not have it"
                )
        settings = {name: self._setting(name, value) for name, value in given.items()}
        return settings | (self._fixed if family == "softmax" else {})

    def _setting(self, name, value):
        return super()._setting(name, value) if self._family == "softmax" else plain(value)

    def _map(self, X, y):
        self._settings()  # what is refused is refused before a transformer is fitted
        return super()._map(X, y)

    def _class_weights(self, codes, sample_weight):
        if self._family == "softmax" or not isinstance(self.class_weight, str):
            return super()._class_weights(codes, sample_weight)
        if self.class_weight != "balanced":
            raise ValueError(f'`class_weight` is {self.class_weight}, but it must be "balanced", a dictionary or None')
        rows = np.ones(len(codes)) if sample_weight is None else sample_weight
        totals = np.bincount(codes, weights=rows)
        return (rows.sum() / (len(totals) * totals))[codes] * rows

    @classmethod
    def _reads(cls, family):
        return family in cls._tables

    @classmethod
    def _opens(cls, settings):
        return "prior" in settings or super()._opens(settings)

    @classmethod
    def _from_settings(cls, settings):
        family = "experts" if "prior" in settings else "softmax"
        given = super()._from_settings(settings) | ({"prior": "gaussian"} if family == "softmax" else {})
        if family == "softmax" and given["inference"] != "vb":
            # trees by other means are the command line's: of their settings those are kept that mean the same here
            return {name: given[name] for name in ("prior", "inference", "n_chains", "n_warmup", "n_draws", "thin")}
        # what is as it would be anyway is left open, as its user left it
        usual = {s["name"]: s["default"] for s in _core.family_info(family)["settings"]}
        kept = ("prior", "inference", "experts")
        return {name: value for name, value in given.items() if name in kept or settings[name] != usual[name]}

    def _read(self):
        for name in _FITTED:
            vars(self).pop(name, None)
        arrays = self._model.arrays()
        if "expert_coef" not in arrays and "expert_coef_draws" not in arrays:  # a tree
            return super()._read()
        traces = [chain["objective"] for chain in self._model.trace()]
        if "chain_lengths" in arrays:
            self.posterior_ = Posterior(self._model)
            self.log_joint_trace_ = log_joint_trace(traces)
            self.n_iter_ = max(map(len, traces))
            rows, experts = len(arrays["log_joint_draws"]), arrays["expert_coef_draws"].shape[1]
        else:
            self.bound_ = float(arrays["objective" if "objective" in arrays else "elbo"][0])
            self.elbo_trace_ = traces[int(arrays["chain"][0])]
            self.n_iter_ = len(self.elbo_trace_)
            self.coef_, self.intercept_ = arrays["expert_coef"], arrays["expert_intercept"]
            if "gate_coef" in arrays:
                self.gate_coef_, self.gate_intercept_ = arrays["gate_coef"], arrays["gate_intercept"]
            rows, experts = 1, self.coef_.shape[0]
        self.structure_ = "1 expert" if experts == 1 else f"{experts} experts"
        # one expert has no angles
        none = np.empty((rows, 0))
        self.angles_ = arrays.get("angles_draws", none)
        self.gate_angles_ = arrays.get("gate_angles_draws", none)
        self.diversity_ = self._diversity()
        return arrays

    def _diversity(self):
        """Figures of the angles, as the summary has them."""
        summary = self.summary()
        sides = {}
        for name, numbers in summary.rows.items():
            figure, _, side = name.rpartition(" of ")
            if side in ("experts", "gates"):
                row = dict(zip(summary.columns, numbers, strict=True))
                sides.setdefault(side, {})[figure] = {key: row[key] for key in ("mean", "5%", "95%")}
        return sides

    def shared_expert(self, X):
        """Probability that two rows come from the same expert, averaged over the posterior.

        It does not depend on how experts are labelled, so it says which rows belong together whatever the chains do.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
            One number a pair of rows. Those on the diagonal are of two rows that look the same.
        """
        check_is_fitted(self)
        if hasattr(self, "angles_"):
            return self._model.together(lend(self._rows(X)))
        shares = self.responsibilities(X)
        return shares @ shares.T

    def predict_proba_std(self, X):
        """Posterior standard deviation of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            How uncertain each probability of `predict_proba` is; zeros where `inference` is "map".
        """
        check_is_fitted(self)
        if not hasattr(self, "angles_"):
            return super().predict_proba_std(X)
        probability, deviation = self._model.predict(lend(self._rows(X)), "")
        return np.zeros_like(probability) if deviation is None else deviation


@documented
class HierarchicalMixtureOfExpertsClassifier(TreeClassifier):
    """Experts behind a tree of gates: regions are divided into regions, and each has a softmax classifier.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_children, n_features)
        Posterior mean of the coefficients of all nodes, gates and experts, from the root down: each child of a node
        against the mean of its node. The rows of `summary()` name them.
    intercept_ : ndarray
        Posterior mean of the intercepts, in the same order.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations of these.
    {attributes}

    See Also
    --------
    MixtureOfExpertsClassifier : One gate, with as many experts as the data ask for.

    Notes
    -----
    Methods of `predict_proba` are "probit" (the default), "mc" and "map", as those of `SoftmaxClassifier`. Trees are
    not searched for; fit several and compare their `bound_`, or `selection_`.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import HierarchicalMixtureOfExpertsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0)
    >>> tree = ["expert", ["expert", "expert"]]
    >>> model = HierarchicalMixtureOfExpertsClassifier(gates=tree, n_init=4, random_state=1).fit(X, y)
    >>> model.structure_
    '(e (e e))'
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _structure = "gates"

    def _settings(self):
        if self.prior != "gaussian":
            raise ValueError(f'`prior` is {self.prior!r}, but the only prior of trees of gates is "gaussian"')
        return super()._settings()

    def __init__(
        self,
        *,
        prior="gaussian",
        gates=(2, 2),
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
        standardize=True,
        input_map=None,
        class_weight=None,
        tol=0.001,
        max_iter=600,
        map_penalty=0.01,
        n_init=10,
        n_vb=2,
        anneal=False,
        n_chains=4,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        random_state=None,
        threads=None,
        block_rows=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())
