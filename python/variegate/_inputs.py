"""What estimators hand to the Rust side: rows without copies, one seed, plain settings."""

import sys

import numpy as np
from sklearn.utils import check_random_state


def lend(X):
    """Hand over validated rows: the array itself, or the parts of a CSR matrix, sharing memory where types allow."""
    if not hasattr(X, "indptr"):
        return laid_out(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # SciPy counts with signed numbers of the same width: a view of the same memory (a negative one is then too large)
    indices = X.indices.view(np.uint32) if X.indices.dtype == np.int32 else X.indices.astype(np.uint32)
    indptr = X.indptr.astype(np.int64, copy=False).view(np.uint64)
    return *map(laid_out, (indptr, indices, X.data)), X.shape[1]


def laid_out(values):
    """Numbers in one piece, at an address that Rust can read. Only what came over a wire or from a file is copied."""
    return np.require(values, requirements=["C_CONTIGUOUS", "ALIGNED"])


def outside():
    """Give the `stacklevel` at which a warning points to the call from outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("variegate", "contextlib"):
        frame, level = frame.f_back, level + 1
    return level


def seed_of(random_state):
    """One 64-bit seed. A whole number is the seed itself, as on the command line; anything else is drawn from."""
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**64:
            raise ValueError(f"`random_state` is {random_state}, but a seed must lie between 0 and 2**64 - 1")
        return int(random_state)
    return int(check_random_state(random_state).randint(0, 2**64, dtype=np.uint64))


def plain(value):
    """Turn NumPy scalars and arrays into the Python numbers that they hold, inside lists and dictionaries too."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    return value


def sizes(value):
    """Write numbers of subclasses or experts as the settings know them: 2 is "2", [3, 2] is "3,2", texts are texts."""
    value = plain(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list) and value and all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        return ",".join(map(str, value))
    return value


def count(name, value, least):
    """Check a whole number of at least `least`."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**32:
        raise ValueError(f"`{name}` is {value!r}, but it must be None or a whole number from {least} to 2**32 - 1")
    return value


def chosen_draws(value):
    """Write `predict_draws` as the library reads it."""
    value = plain(value)
    if value is None or value == "all":
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f'`predict_draws` is {value!r}, but it must be None, "all" or a whole number of at least 1')
    return str(value)
