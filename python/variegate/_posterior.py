"""Posterior draws as NumPy arrays, and as ArviZ data."""

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from ._core import __version__

# what ArviZ calls figures of a draw that are no parameters
_STATS = {"log_joint": "lp", "log_likelihood": "total_log_likelihood"}


def _by_chain(values, lengths):
    """Put draws of chains side by side, cut to the shortest: (chain, draw, ...)."""
    starts, shortest = np.cumsum(lengths) - lengths, min(lengths)
    return np.stack([values[start : start + shortest] for start in starts])


class Posterior(Mapping):
    """Draws by name: each an array whose first two axes are (chain, draw).

    A mapping that needs NumPy only. Chains that were stopped at different lengths are cut to the shortest.

    Attributes
    ----------
    n_chains, n_draws : int
        Length of the first two axes.
    """

    def __init__(self, model):
        self._model = model
        self._draws = None

    def _load(self):
        if self._draws is None:
            arrays = self._model.arrays()
            lengths = arrays["chain_lengths"].astype(int)
            self._draws = {
                name.removesuffix("_draws"): _by_chain(values, lengths)
                for name, values in arrays.items()
                if name.endswith("_draws")
            }
        return self._draws

    @property
    def n_chains(self):
        return next(iter(self._load().values())).shape[0]

    @property
    def n_draws(self):
        return next(iter(self._load().values())).shape[1]

    def __getitem__(self, name):
        return self._load()[name]

    def __iter__(self):
        return iter(self._load())

    def __len__(self):
        return len(self._load())

    def __getstate__(self):
        return {"_model": self._model, "_draws": None}

    def __repr__(self):
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.items())
        return f"<Posterior: {shapes}>"


def log_joint_trace(chains):
    """Put traces side by side, (chain, sweep); chains that were stopped earlier end in NaN."""
    trace = np.full((len(chains), max(map(len, chains))), np.nan)
    for row, objective in zip(trace, chains, strict=True):
        row[: len(objective)] = objective
    return trace


def to_arviz(model, likelihoods=None):
    """Build ArviZ data of the draws of a model: InferenceData before ArviZ 1, a DataTree from then on.

    `likelihoods` are log likelihoods of rows, one draw a line, and the lengths of chains.
    """
    try:
        import arviz as az
    except ImportError:
        raise ImportError("`to_arviz` needs ArviZ: install arviz") from None

    draws = dict(Posterior(model))
    coords, dims, lengths = {}, {}, {}
    for array, axes in model.dims().items():
        name = array.removesuffix("_draws")
        if name == array or name not in draws:
            continue
        dims[name] = []
        for (dim, labels), length in zip(axes[1:], draws[name].shape[2:], strict=True):
            # the same word for axes of other lengths is another axis
            axis = dim if lengths.setdefault(dim, length) == length else f"{name}_{dim}"
            dims[name].append(axis)
            if labels:
                coords.setdefault(axis, labels)
    stats = {ours: draws.pop(theirs) for theirs, ours in _STATS.items() if theirs in draws}
    groups = {"posterior": draws, "sample_stats": stats}
    dims = {name: axes for name, axes in dims.items() if axes}
    if likelihoods is not None:
        groups["log_likelihood"] = {"y": _by_chain(*likelihoods)}
        dims["y"] = ["row"]
    if int(az.__version__.split(".")[0]) >= 1:
        data = az.from_dict(groups, coords=coords, dims=dims)
    else:
        data = az.from_dict(**groups, coords=coords, dims=dims)
    about = {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "variegate",
        "inference_library_version": __version__,
    }
    for group in groups:
        data[group].attrs.update(about)
    return data
