"""Rows grouped into a tree of fixed depth and unknown width."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._base import FamilyEstimator, columns_here
from ._documented import documented
from ._files import column
from ._inputs import count, lend
from ._latent import HeldOut
from ._posterior import Posterior, log_joint_trace
from ._rows import validated


@dataclass(frozen=True)
class TreeNode:
    """A node of a tree over the rows of a fit.

    Attributes
    ----------
    id : int
        Its number: its place among the nodes of the tree. The root is 0.
    parent : int or None
        Number of the node above; None for the root.
    level : int
        0 for the root.
    rows : ndarray of int
        Rows of the fit below it, ascending.
    weights : ndarray of float
        Expected share of each component among its rows.
    cohesion : float or None
        Mean probability that two of its rows belong together at its level; None for the root.
    separation : float or None
        1 less the largest mean probability that a row of it and one of a sibling belong together; NaN without siblings.
    support : float or None
        Mean over the draws of the best overlap (Jaccard) with a node of the draw.
    """

    id: int
    parent: int | None
    level: int
    rows: np.ndarray
    weights: np.ndarray
    cohesion: float | None
    separation: float | None
    support: float | None


class Tree(Sequence):
    """The nodes of a tree, by their numbers.

    Attributes
    ----------
    depth : int
        Levels below the root.
    loss : float or None
        Expected loss that the tree was chosen by; None for a draw.
    components : list of str
        Names of the components that weights of nodes are of.
    nodes : list of TreeNode
        The nodes: level by level, in a level by their first rows.
    """

    def __init__(self, found):
        self.depth = found["levels"]
        self.loss = found["loss"]
        self.components = found["components"]
        self.nodes = [TreeNode(**node) for node in found["nodes"]]

    def __len__(self):
        return len(self.nodes)

    def __getitem__(self, id):
        return self.nodes[id]

    def children(self, id):
        """Nodes right below a node."""
        return [node for node in self.nodes if node.parent == id]

    def level(self, level):
        """Nodes of a level."""
        return [node for node in self.nodes if node.level == level]

    def __repr__(self):
        widths = ", ".join(str(len(self.level(level))) for level in range(1, self.depth + 1))
        return f"<Tree: {len(self.nodes[0].rows)} rows, nodes by level: {widths}>"


def _unknown(label):
    """Whether a label says nothing."""
    # nothing of pandas cannot be compared
    return label is None or type(label).__name__ == "NAType" or label != label or str(label).strip() == ""


def _name_of(label):
    """Name of a label; numbers that are whole are written so."""
    return str(int(label)) if isinstance(label, (float, np.floating)) and float(label).is_integer() else str(label)


def _paths(labels, depth):
    """Labels of rows as paths down the tree, one text a row; an empty one where a label is not known."""
    labels = np.asarray(labels, dtype=object)
    if labels.ndim == 1:
        return np.array(["" if _unknown(label) else _name_of(label) for label in labels], dtype=object)
    if labels.ndim != 2 or not 1 <= labels.shape[1] <= depth:
        raise ValueError(
            f"`start_labels` have the shape {labels.shape}, but must be one a row, or one for each of at most "
            f"{depth} levels (`depth`)"
        )
    for row, path in enumerate(labels):
        if odd := [label for label in path if not _unknown(label) and "/" in _name_of(label)]:
            raise ValueError(f"`start_labels` hold {odd[0]!r} in row {row}: a label of one level has no stroke in it")
    return np.array(
        ["" if any(map(_unknown, path)) else "/".join(map(_name_of, path)) for path in labels], dtype=object
    )


def _codes(paths, rows):
    """Labels as the library takes them: codes and names."""
    if len(paths) != rows:
        raise ValueError(f"`start_labels` have {len(paths)} rows, but X has {rows}")
    names, codes = np.unique(paths.astype(str), return_inverse=True)
    return codes.astype(np.uint32), [str(name) for name in names]


@documented
class ClusterTree(ClusterMixin, FamilyEstimator):
    """Bayesian hierarchical mixture clustering: rows in a tree whose every level is a clustering.

    Rows walk down a tree of `depth` levels, of which nothing but the depth is given; every node mixes the same
    components in shares of its own, and those of a child lie around those of its parent. With a `separation` above 0 a
    large-margin term pulls siblings apart. Draws are from the exact posterior by Markov chains (but for the sampler
    "paper"); one tree, that of least expected loss, stands for them, and every node of it is told how surely the draws
    have it.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples, depth)
        Number of the node of each row at each level: its place in `tree_`.
    tree_ : Tree
        The tree of least expected variation of information: a sequence of `TreeNode`, the root first.
    tree_best_ : Tree
        The tree of the draw with the largest complete-data likelihood (and charge of the margin).
    components_ : ndarray of shape (n_components_, n_features_in_)
        Expected row of each component of the best draw, averaged over the draws that have it too.
    n_components_ : int
        Number of these.
    leaf_sizes_ : ndarray of shape (n_leaves,)
        Rows of each leaf of `tree_`.
    n_components_draws_ : ndarray of shape (n_chains * n_draws,)
        Number of components in each draw.
    n_nodes_draws_ : ndarray of shape (n_chains * n_draws, depth)
        Number of nodes of each level in each draw.
    one_path_fraction_ : float
        Share of the draws whose tree is a single path.
    pca_loadings_ : ndarray of shape (pca, n_features_in_)
        Loadings of the principal components, with `pca` only.
    pca_variances_ : ndarray of shape (pca,)
        Their variances, with `pca` only.
    node_weights_ : ndarray of shape (n_nodes, n_components_ + 2)
        Expected weights of each node of `tree_`, the tree held fixed: on each component of the best draw, on all
        others, and on new ones; rows sum to one. Not with `node_sweeps=0` or too many rows.
    swap_acceptance_ : ndarray of shape (temperatures - 1,)
        Share of the swaps of each temperature with the next that were accepted, with several `temperatures` only.
    posterior_ : Posterior
        The draws as arrays (chain, draw, ...): `log_likelihood`, `log_joint` (with the charges of the margin),
        `n_components`, `n_nodes`, `alpha`, `gamma`, `gamma0`, `violation`...
    log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
        Log likelihood of complete data, with the charges of the margin, of every sweep, warm-up included.
    n_iter_ : int
        Sweeps of each chain.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they had any.

    Notes
    -----
    Entries may be missing (NaN) where the distribution of components factors over columns, and without `pca`: they are
    left out. With `pca` rows are given in columns all the same, also new ones; log densities and distances are those of
    their principal components.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import ClusterTree
    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([[-9.0, 0.0], [9.0, -3.0], [9.0, 3.0]])
    >>> X = np.repeat(centres, 10, axis=0) + 0.3 * rng.normal(size=(30, 2))
    >>> model = ClusterTree(depth=2, gamma=0.1, n_chains=2, n_warmup=200, n_draws=100, random_state=1).fit(X)
    >>> model.labels_.shape
    (30, 2)
    >>> len(set(model.labels_[:10, 1])) == 1
    True
    >>> bool((model.predict([[-9.1, 0.1]]) == model.labels_[0]).all())
    True
    """

    _family = "tree"

    def __init__(
        self,
        *,
        depth=3,
        alpha=0.35,
        gamma=1.0,
        gamma0=0.85,
        learn_concentrations=False,
        concentration_shape=1.0,
        concentration_rate=1.0,
        likelihood="gaussian-diag",
        pca=None,
        prior_mean=None,
        mean_strength=None,
        precision_shape=None,
        precision_rate=None,
        freedom=None,
        scatter=None,
        variance=None,
        mean_variance=None,
        variance_shape=None,
        variance_rate=None,
        base=None,
        prior_strength=None,
        rate_shape=None,
        rate_rate=None,
        n_components=None,
        separation=0.0,
        margin=1.0,
        score_sd=1.0,
        margin_scale=3.0,
        margin_intercept=False,
        target="calibrated",
        penalty="max",
        score_update="ess",
        sampler="auto",
        own_margin="scales",
        path_move="gibbs",
        theta="collapsed",
        regraft=True,
        split_merge=None,
        temperatures=1,
        start="sequential",
        node_sweeps=500,
        n_chains=4,
        n_warmup=2000,
        n_draws=1000,
        thin=2,
        random_state=None,
        threads=None,
        block_rows=None,
        engine=None,
        out=None,
        progress="auto",
    ):
        self._store(locals())

    def fit(self, X, y=None, *, start_labels=None, feature_names=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), DataFrame or files
            Rows: real numbers, 0 and 1, codes or counts, as `likelihood` says. Files are Parquet: a path, a pattern
            such as ``"data/*.parquet"``, or a list of these. With an `engine`, Dask arrays and frames too.
        y : ignored
            Not used: there is nothing to predict.
        start_labels : array-like of shape (n_samples,) or (n_samples, n_levels), or str, default=None
            Clusters that chains begin with (`start` is then "labels"): one label a row, or one for each level from
            the root down, for as many levels as there are columns; or the name of a column of X. A label may be a path
            too, written ``"mammal/whale"``. Rows whose label is None, NaN or "" are placed by the model, given the
            others. Chains forget them: the posterior is the same wherever they begin.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the columns, where X has none.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._forget()
        self._check_start(start_labels)
        if start_labels is not None and not isinstance(start_labels, str) and not hasattr(start_labels, "to_delayed"):
            start_labels = _paths(start_labels, self.depth)
        start_labels = column("start_labels", start_labels)
        self._labelled = start_labels is not None
        try:
            if (engine := self._engine()) is not None:
                labelled = start_labels is not None
                with engine.hold(X, y=start_labels, classified=labelled, block_rows=self._block_rows()) as rows:
                    return self._fit_elsewhere(rows, feature_names=feature_names)
            X, start_labels, _, _, columns = columns_here(X, start_labels)
            X = self._validated(X, reset=True)
            self._name(feature_names, columns)
            codes = None if start_labels is None else _codes(_paths(start_labels, self.depth), X.shape[0])
            return self._fit(X, codes, None, list(getattr(self, "feature_names_in_", [])))
        finally:
            vars(self).pop("_labelled", None)

    def _check_start(self, start_labels):
        """Refuse a start beside labels, and labels that are not there."""
        if start_labels is None and self.start == "labels":
            raise ValueError("`start` is 'labels', but there are none: give `fit` the `start_labels` of the rows")
        if start_labels is not None and self.start not in ("labels", "sequential"):
            raise ValueError(
                f"`start_labels` are what chains begin with, but `start` is {self.start!r}: leave one of them out"
            )

    def _settings(self):
        settings = super()._settings()
        return settings | {"start": "labels"} if getattr(self, "_labelled", False) else settings

    def fit_predict(self, X, y=None, **kwargs):
        """Fit the model and give `labels_`; see `fit`."""
        return self.fit(X, y, **kwargs).labels_

    def _takes_gaps(self):
        return self.likelihood not in ("gaussian-full", "multinomial") and self.pca is None

    def _validated(self, X, reset):
        advice = "" if self._takes_gaps() else ", choose a `likelihood` that leaves missing entries out, without `pca`"
        with self._places_do():
            return validated(self, X, reset=reset, missing=self._takes_gaps(), advice=advice)

    def _read(self):
        arrays = self._model.arrays()
        self.posterior_ = Posterior(self._model)
        self.log_joint_trace_ = log_joint_trace([chain["objective"] for chain in self._model.trace()])
        self.n_iter_ = self.log_joint_trace_.shape[1]
        self.tree_ = Tree(_core.tree_nodes(self._model))
        self.tree_best_ = Tree(_core.tree_nodes(self._model, "best"))
        self.labels_ = _core.tree_labels(self._model)
        for name in ("components", "leaf_sizes", "n_components_draws", "n_nodes_draws"):
            setattr(self, f"{name}_", arrays[name])
        self.n_components_ = self.components_.shape[0]
        self.one_path_fraction_ = float(arrays["one_path_fraction"][0])
        for name in ("pca_loadings", "pca_variances", "swap_acceptance", "node_weights"):
            vars(self).pop(f"{name}_", None)
            if name in arrays:
                setattr(self, f"{name}_", arrays[name])
        return arrays

    def _asked(self, X):
        check_is_fitted(self)
        return lend(self._validated(X, reset=False))

    def _level(self, level):
        level = count("level", level, 1)
        if level > self.tree_.depth:
            raise ValueError(f"`level` is {level}, but the tree has {self.tree_.depth} levels below its root")
        return level

    def co_occurrence_(self, level):
        """Probability that two rows of the fit share their node of a level.

        Parameters
        ----------
        level : int
            Level, from 1.

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
            Share of the draws in which they do.
        """
        check_is_fitted(self)
        return _core.tree_co_occurrence(self._model, self._level(level))

    def predict(self, X, level=None):
        """Nodes that rows belong to: those of least expected loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. What is said of a row depends on that row alone.
        level : int or None, default=None
            A level, from 1; None gives all of them.

        Returns
        -------
        ndarray of shape (n_samples, depth) or (n_samples,)
            Numbers of nodes of `tree_`; -1 where the row opens a branch of its own.
        """
        rows = self._asked(X)
        at = None if level is None else self._level(level)
        path = _core.tree_place(self._model, rows)["path"]
        return path if at is None else path[:, at - 1]

    def predict_proba(self, X, level):
        """Probability that rows belong to each node of a level.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        level : int
            Level, from 1.

        Returns
        -------
        ndarray of shape (n_samples, n_nodes + 1)
            For each node of `tree_.level(level)` the probability that the row belongs to it, and last that its node is
            new: by the weights of nodes with the tree held fixed, so they add up to 1. With `node_sweeps=0` (and in
            runs kept by earlier versions) the mean probability over all draws that the row shares its node with the
            rows of that node; since the draws have other trees, these need not add up to 1.
        """
        rows = self._asked(X)
        level = self._level(level)
        found = _core.tree_place(self._model, rows)
        nodes = [node.id for node in self.tree_.level(level)]
        return np.column_stack([found["through"][:, nodes], found["new"][:, level - 1]])

    def responsibilities(self, X):
        """Shares of components in rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components_ + 2)
            Of each component of the best draw, of all others, and of new ones.
        """
        return self._model.responsibilities(self._asked(X))[1]

    def held_out(self, X, *, draws=None):
        """Log density of rows that the fit has not seen, in closed form for each draw.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. Of a row with missing entries (NaN) it is the density of what was observed.
        draws : int or None, default=None
            Draws of the posterior to average over, at most; None takes all.

        Returns
        -------
        HeldOut
            With `ln_probability` and `error` of each row, `joint` of all of them, and `log_ppd`.
        """
        rows = self._asked(X)
        most = 2**32 if draws is None else count("draws", draws, 1)
        return HeldOut(**self._model.held_out(rows, None, draws=most))

    def score_samples(self, X):
        """Log density of each row under the posterior; the margin has no part in it.

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
        """Mean log density of a row; see `score_samples`.

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

    def tree_scores(self, X=None, classes=None, *, tree="point"):
        """How good the tree is, over the rows of the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The rows of the fit, for distances: a fitted model does not keep them.
        classes : array-like of shape (n_samples,), default=None
            Their classes, for F-measures and purity; None or NaN where one is not known.
        tree : {"point", "binder", "best"}, default="point"
            Which tree.

        Returns
        -------
        dict of str to dict
            For `nodes_1`, `aid`, `aid_zero`, `aid_ratio`, `aod`, `aod_ratio`, `f_1`, `purity`...: the score of the
            `tree`, the `mean` over draws, and the share of draws in which it is `defined`.
        """
        check_is_fitted(self)
        rows = None if X is None else self._asked(X)
        codes = None
        if classes is not None:
            # a class that is not known equals nothing, itself included
            known = [c is not None and c == c for c in classes]
            names = {str(c): None for c, k in zip(classes, known, strict=True) if k}
            places = {name: i for i, name in enumerate(names)}
            codes = np.array([places[str(c)] if k else -1 for c, k in zip(classes, known, strict=True)], dtype=np.int64)
        found = _core.tree_scores(self._model, tree, rows, codes)
        return {name: dict(zip(("tree", "mean", "defined"), s, strict=True)) for name, s in found.items()}

    def _text(self, tree, format, names, merge):
        check_is_fitted(self)
        names = None if names is None else [str(name) for name in names]
        return _core.tree_text(self._model, tree, format, names, merge)

    def to_newick(self, names=None, *, tree="point", merge=False):
        """Write the tree in the Newick format.

        Parameters
        ----------
        names : array-like of str of shape (n_samples,), default=None
            Names of the rows; None numbers them from 1.
        tree : {"point", "binder", "best"}, default="point"
            Which tree.
        merge : bool, default=False
            Whether nodes without siblings are merged into the node above. Nodes have other numbers then.

        Returns
        -------
        str
            The tree, with branch lengths and the support of nodes.
        """
        return self._text(tree, "newick", names, merge)

    def to_json(self, names=None, *, tree="point", merge=False):
        """Give the tree as a dictionary of plain lists and numbers; see `to_newick`."""
        return json.loads(self._text(tree, "json", names, merge))

    def to_dot(self, names=None, *, tree="point", merge=False):
        """Write the tree as a graph for Graphviz; see `to_newick`."""
        return self._text(tree, "dot", names, merge)

    def to_svg(self, names=None, *, tree="point", merge=False):
        """Draw the tree as SVG text; see `to_newick`."""
        return self._text(tree, "svg", names, merge)

    def to_linkage(self, *, tree="point"):
        """Give the tree as a linkage matrix of SciPy.

        Parameters
        ----------
        tree : {"point", "binder", "best"}, default="point"
            Which tree.

        Returns
        -------
        ndarray of shape (n_samples - 1, 4)
            For `scipy.cluster.hierarchy.dendrogram` and its kin. Rows of a leaf meet at height 1, those of a node of
            level l at `depth + 1 - l`.
        """
        check_is_fitted(self)
        return _core.tree_linkage(self._model, tree)

    def plot(self, names=None, *, tree="point", ax=None, **kwargs):
        """Draw the tree as a dendrogram, with Matplotlib and SciPy.

        Parameters
        ----------
        names : array-like of str of shape (n_samples,), default=None
            Names of the rows; None numbers them from 1.
        tree : {"point", "binder", "best"}, default="point"
            Which tree.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs
            Passed on to `scipy.cluster.hierarchy.dendrogram`.

        Returns
        -------
        matplotlib.axes.Axes
            Where it was drawn.
        """
        check_is_fitted(self)
        try:
            import matplotlib.pyplot as plt
            from scipy.cluster.hierarchy import dendrogram
        except ImportError as error:
            raise ImportError(
                "`plot` draws with Matplotlib: install it (pip install matplotlib), or take `to_svg` instead"
            ) from error
        linkage = self.to_linkage(tree=tree)
        if len(linkage) == 0:
            raise ValueError("a tree of a single row has nothing to draw")
        rows = len(linkage) + 1
        names = [str(i) for i in range(1, rows + 1)] if names is None else [str(name) for name in names]
        if len(names) != rows:
            raise ValueError(f"`names` has {len(names)} entries, but the fit had {rows} rows")
        if ax is None:
            _, ax = plt.subplots(figsize=(6, max(2.5, 0.2 * rows)), layout="constrained")
        options = {"orientation": "left", "labels": names, "color_threshold": self.tree_.depth + 0.5} | kwargs
        dendrogram(linkage, ax=ax, **options)
        return ax

    def _row_likelihoods(self, X, y):
        raise ValueError(
            "a row of this model has a place in the tree of its own, so draws have no likelihood of rows that could be "
            "added here: `to_arviz` takes no rows. `held_out` tells how probable rows are"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_gaps()
        return tags
