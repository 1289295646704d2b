"""Parameters in docstrings, from the same table of settings that Rust and the command line read."""

import inspect
import textwrap

from . import _core

_KINDS = {
    "integer": "int",
    "number": "float",
    "optional integer": "int or None",
    "optional number": "float or None",
    "switch": "bool",
    "text": "str",
    "optional text": "str or None",
    "nested": "list, dict or None",
}

# settings of a run, and those that Python takes in more forms than the table knows
_OWN = {
    "subclasses": (
        "int, sequence of int, str or None",
        "Subclasses of each class: one number for all classes, a number a class in the order of `classes_`, or "
        '"auto", "auto:MOST" (greedy splits and deletions), "compressive:LARGEST" or "all:LARGEST" to search; None is '
        "one each.",
    ),
    "experts": (
        "int, str or None",
        'Experts behind the gate: a number, or "auto", "auto:MOST" (greedy splits and deletions) or "all:MOST" to '
        "search; None is one.",
    ),
    "gates": (
        "sequence, dict or None",
        'Tree of gates: a sequence is a gate whose items are "expert", a number of experts behind one more gate, a '
        "sequence again, a dictionary with `children` (and `coding`), or a dictionary with `subclasses`, a number a "
        "class. (2, 2) is a gate over two gates of two experts.",
    ),
    "input_map": (
        "str, transformer or None",
        'Features made of the inputs: "polynomial:3", "fourier:100", "fourier:100:0.6", or any object with `fit` and '
        "`transform`, which is cloned, fitted to the rows and kept as `input_map_`. None takes the columns as they "
        "are.",
    ),
    "class_weight": (
        '"balanced", dict or None',
        'Weights of classes: "balanced" lets every class count the same in all; a dictionary gives the weight of each '
        "class, by which those of its rows are multiplied.",
    ),
    "random_state": ("int, RandomState or None", "Seed of every random number: of starts, of draws."),
    "threads": ("int or None", "Threads to use; None takes all there are. Results do not depend on it."),
    "block_rows": (
        "int or None",
        "Rows that are worked on together; other values change the last digits. None chooses by the number of columns.",
    ),
    "out": (
        "str, path or None",
        "Folder that keeps the run while it goes on: traces and states, as the command line writes them. A fit that "
        "was stopped goes on there if it is called again with the same data and settings; a finished one is read.",
    ),
    "progress": (
        'bool or "auto"',
        'Whether tqdm draws a progress bar; "auto" does so in a terminal or a notebook.',
    ),
}

_ATTRIBUTES = """\
structure_ : str
    The structure that was fitted or chosen.
selection_ : DataFrame or list of dict
    The structures that were compared, one a row: `structure`, `chosen`, and every criterion that is known (larger is
    better). A list of dictionaries where pandas is not installed.
shares_ : ndarray of shape (n_components,)
    Share of the rows that each hidden component (subclass, expert, path of a tree) has.
component_names_ : list of str
    Names of the hidden components.
bound_ : float
    The lower bound on the log evidence that was reached (the penalised log likelihood where `inference` is "map"). It
    compares fits of the same `bound`, `covariance` and `precision`.
elbo_trace_ : ndarray of shape (n_iter_,)
    The bound after every sweep of the ascent that was chosen.
posterior_ : Posterior
    The draws as arrays (chain, draw, ...), where `inference` is "gibbs". There is no bound then, and no share of
    components that change places between draws.
log_joint_trace_ : ndarray of shape (n_chains, n_iter_)
    Log joint density of every sweep, warm-up included, where `inference` is "gibbs".
n_iter_ : int
    Number of sweeps of the ascent that was chosen, or of a chain.
input_map_ : object
    The fitted transformer, where `input_map` is one.
n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, if they had any."""


def _setting_type(setting):
    if setting["kind"] == "word":
        words = setting["allowed"].removeprefix("one of ").split(", ")
        return "{" + ", ".join(f'"{w}"' for w in words) + "}"
    return _KINDS[setting["kind"]]


def _shown(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _entry(parameter, settings):
    """One parameter; `settings` are those of this name, of each family that has it."""
    if parameter.name in _OWN:
        kind, text = _OWN[parameter.name]
    elif not settings:  # the one prior of trees
        kind, text = '{"gaussian"}', "Prior of the weights."
    else:
        kind = _setting_type(settings[0])
        text = settings[0]["help"].replace("nothing", "None") + "."
    default = _shown(parameter.default)
    if parameter.default is None and settings and parameter.name not in ("input_map", "class_weight"):
        # None stands for the default of each family
        known = list(dict.fromkeys(_shown(s["default"]) for s in settings))
        default += f" ({' or '.join(known)})" if known != ["None"] else ""
    body = textwrap.fill(text, 116, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{parameter.name} : {kind}, default={default}\n{body}"


def documented(cls):
    """Fill in `{parameters}` and `{attributes}` in the docstring of an estimator."""
    if cls.__doc__ is not None:  # python -OO
        families = getattr(cls, "_tables", None) or (cls._family,)
        table = {}
        for family in families:
            for setting in _core.family_info(family)["settings"]:
                table.setdefault(setting["name"], []).append(setting)
        parameters = inspect.signature(cls).parameters.values()
        text = "\n".join(_entry(p, table.get(p.name)) for p in parameters)
        cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{parameters}", text).replace("{attributes}", _ATTRIBUTES)
    return cls
