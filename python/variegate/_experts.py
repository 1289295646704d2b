"""Classification by experts behind gates."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._documented import documented
from ._inputs import lend
from ._posterior import Posterior, log_joint_trace
from ._trees import ComponentClassifier, TreeClassifier, is_transformer

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


class _ExpertsClassifier(ComponentClassifier):
    """A classifier whose hidden components are experts."""

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
        return self._together(X)

    def _together(self, X):
        shares = self.responsibilities(X)
        # leaves of a tree of gates are an expert and a class
        experts = [name.partition(": ")[0] for name in self.component_names_]
        _, place = np.unique(experts, return_inverse=True)
        shares = shares @ np.eye(place.max() + 1)[place]
        return shares @ shares.T


@documented
class MixtureOfExpertsClassifier(_ExpertsClassifier):
    """Mixture of diverse experts: a softmax gate chooses between linear classifiers, each for its own region.

    The gate gives each expert a probability in the columns x, and each expert its own class probabilities; which expert
    a row belongs to is not observed. The prior keeps the directions of the experts' weights apart from one another, so
    that few experts go far and rare patterns can have one of their own: a chain of directions, each away from the sum
    of those before it (`prior="mutual-angular"`, the default, and "mutual-angular-1"), or a determinant
    ("determinantal"). With prior "gaussian" they are independent.

    The posterior is sampled ("hmc", "gibbs", "mh"), approximated ("vb"), regularised ("pr") or maximised ("map"). A
    setting that the chosen prior or inference does not have is refused unless it is left at its default. Prior
    "gaussian" is one model for every inference, weights of the standard deviation `tau`, and the same as
    ``variegate fit experts --prior gaussian``; with inference "vb" it is fitted as a tree of softmax nodes.
    `HierarchicalMixtureOfExpertsClassifier` is another model, which learns the precisions of its weights.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    angles_ : ndarray of shape (n_draws, n_pairs)
        Angles between the weights of each pair of experts, in radians, ascending in each draw (of all chains, one after
        the other), so that they do not depend on the labels of experts. Not with prior
        "gaussian" and inference "vb".
    gate_angles_ : ndarray of shape (n_draws, n_pairs)
        The same of the gates, against their mean.
    diversity_ : dict of str to dict
        How far apart `"experts"` and `"gates"` are: mean, smallest and standard deviation of the angles and of the
        non-obtuse angles, in degrees, and the mutual angular regulariser, each with its posterior `mean`, `5%` and
        `95%`. Of experts in use alone: one with less than 0.1 % of the rows, or less than two of them, lies where the
        prior puts it; `"gates"` where there are three or more in use. Where there are `angles_`.
    coef_ : ndarray
        Where experts have labels (inference "vb", "pr" and "map"): coefficients of each expert, of shape (n_experts, 1,
        n_features) for two classes, as log-odds of the second, and (n_experts, n_classes, n_features) for more, each
        class against the mean of all. With prior "gaussian" and inference "vb", shape
        (n_experts + n_experts * n_classes, n_features): first those of the gate, each expert against the mean of all,
        then those of each expert, each class against the mean of all.
    intercept_ : ndarray
        The intercepts, in the same order.
    gate_coef_, gate_intercept_ : ndarray of shape (n_experts, n_features) and (n_experts,)
        Those of the gates, against their mean, where they are not part of `coef_`.
    coef_sd_, intercept_sd_ : ndarray
        Posterior standard deviations, with prior "gaussian" and inference "vb".
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
        The structure that was fitted.
    shares_ : ndarray of shape (n_experts,)
        Share of the rows that each expert has, given features and classes: in the order of the experts where these have
        labels (inference "vb", "pr" and "map"), else the posterior mean of the largest share, of the next and so on.
        With prior "gaussian" and inference "vb" those of `component_names_`.
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
    HierarchicalMixtureOfExpertsClassifier : Independent experts behind one gate or a tree of gates; finds their number.
    MixtureOfExpertsRegressor : The same for real outcomes.

    Notes
    -----
    Methods of `predict_proba` are "average" (over the draws, the default) and "plug-in" (at the draw of highest
    density, at the posterior mean, or at the maximum); with prior "gaussian" and inference "vb" they are "probit", "mc"
    and "map", as those of `SoftmaxClassifier`.

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
    >>> model.structure_
    '2 experts'
    """

    _family = "experts"
    # what Python does to rows and their weights before the family sees them
    _own = {  # noqa: RUF012 — never changed
        "input_map": (
            "transformer or None",
            "Any object with `fit` and `transform`: it is cloned, fitted to the rows and kept as `input_map_`. None "
            "takes the columns as they are.",
        ),
        "class_weight": (
            '"balanced", dict or None',
            '"balanced" lets every class count the same in all; a dictionary gives the weight of each class, by which '
            "those of its rows are multiplied.",
        ),
    }

    def __init__(
        self,
        *,
        experts=5,
        prior="mutual-angular",
        inference="hmc",
        kappa=None,
        gate_kappa=None,
        alpha1=2.0,
        alpha2=0.5,
        omega1=2.0,
        omega2=0.5,
        tau=None,
        tau0=5.0,
        ell=0.7,
        l2=1.0,
        diversity=1.0,
        gate_diversity=1.0,
        gamma=1.0,
        delta=0.01,
        intercept="separate",
        scale="auto",
        hyper="fixed",
        gate_bound="bohning",
        max_steps=None,
        target_accept=0.8,
        metric="auto",
        inner=3,
        n_init=5,
        max_iter=1000,
        tol=None,
        n_chains=4,
        n_warmup=500,
        n_draws=1000,
        thin=1,
        input_map=None,
        class_weight=None,
        predict_draws=None,
        random_state=None,
        threads=None,
        block_rows=None,
        engine=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())

    def _map(self, X, y):
        if self.input_map is not None and not is_transformer(self.input_map):
            raise ValueError(f"`input_map` is {self.input_map!r}, but it must be a transformer or None")
        return super()._map(X, y)

    def _class_weights(self, codes, sample_weight):
        if self.class_weight is None or isinstance(self.class_weight, dict):
            return super()._class_weights(codes, sample_weight)
        self._check_class_weight()
        rows = np.ones(len(codes)) if sample_weight is None else sample_weight
        totals = np.bincount(codes, weights=rows)
        return (rows.sum() / (len(totals) * totals))[codes] * rows

    def _weights_of_classes(self, totals):
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return totals.sum() / (len(totals) * totals)
        self._check_class_weight()
        return super()._weights_of_classes(totals)

    def _check_class_weight(self):
        allowed = self.class_weight is None or isinstance(self.class_weight, dict)
        if not allowed and not (isinstance(self.class_weight, str) and self.class_weight == "balanced"):
            raise ValueError(f'`class_weight` is {self.class_weight}, but it must be "balanced", a dictionary or None')

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
        if "shares" in arrays:  # runs of early versions have none
            self.shares_ = arrays["shares"]
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
        for name, row in summary.tables.get("quantities", {}).items():
            figure, _, side = name.removesuffix(" (°)").rpartition(" of ")
            if side in ("experts", "gates"):
                sides.setdefault(side, {})[figure] = {key: row[key] for key in ("mean", "5%", "95%")}
        return sides

    def _together(self, X):
        return self._model.together(lend(self._rows(X))) if hasattr(self, "angles_") else super()._together(X)


@documented
class HierarchicalMixtureOfExpertsClassifier(TreeClassifier, _ExpertsClassifier):
    """Experts behind gates: regions are divided into regions, and each has a softmax classifier.

    One gate chooses between the experts (`experts=4`), or a tree of gates does (`gates`). How many experts one gate has
    can be chosen by how well held-out rows are predicted (`experts="auto:6"`). Weights are independent Gaussians
    whose precisions are learned (`precision`), as in ``variegate fit softmax --experts 4``; those of
    `MixtureOfExpertsClassifier` with prior "gaussian" are given.

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
    MixtureOfExpertsClassifier : One gate over diverse experts, with exact draws.

    Notes
    -----
    Methods of `predict_proba` are "probit" (the default), "mc" and "map", as those of `SoftmaxClassifier`. Trees are
    not searched for, only numbers of experts behind one gate; fit several trees and compare their `bound_`.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import HierarchicalMixtureOfExpertsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 1] < 0)
    >>> model = HierarchicalMixtureOfExpertsClassifier(experts="auto:3", random_state=1).fit(X, y)
    >>> model.structure_
    '2 experts'
    >>> tree = ["expert", ["expert", "expert"]]
    >>> model = HierarchicalMixtureOfExpertsClassifier(gates=tree, n_init=4, random_state=1).fit(X, y)
    >>> model.structure_
    '(e (e e))'
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _structures = ("experts", "gates")
    _more = {  # noqa: RUF012 — never changed
        "experts": "It takes the place of `gates`.",
        "gates": "Where neither is given it is (2, 2).",
    }

    def _settings(self):
        settings = super()._settings()
        if self.experts is None and self.gates is None:
            settings["gates"] = [2, 2]
        return settings

    def __init__(
        self,
        *,
        experts=None,
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
        standardize=True,
        input_map=None,
        class_weight=None,
        tol=0.001,
        max_iter=600,
        map_penalty=0.01,
        n_init=10,
        n_vb=2,
        anneal=False,
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
