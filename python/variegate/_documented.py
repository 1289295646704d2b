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
    "number or text": "float, sequence of float or str",
    "optional number or text": "float, sequence of float, str or None",
    "nested": "list, dict or None",
}

# settings that Python takes in more forms than the table knows: their types, and what there is to add
_FORMS = {
    "subclasses": ("int, sequence of int, str or None", "A sequence has a number a class in the order of `classes_`."),
    "experts": ("int, str or None", ""),
    "gates": (
        "sequence, dict or None",
        "Items of a sequence may also be numbers of experts behind one more gate, dictionaries with `children` (and "
        "`coding`), or a dictionary with `subclasses`, a number a class. (2, 2) is a gate over two gates of two "
        "experts.",
    ),
    "input_map": (
        "str, transformer or None",
        "Or any object with `fit` and `transform`, which is cloned, fitted to the rows and kept as `input_map_`. None "
        "takes the columns as they are.",
    ),
    "separation": ('float or "auto"', ""),
    "class_weight": (
        '"balanced", dict or None',
        "A dictionary gives the weight of each class, by which those of its rows are multiplied.",
    ),
}

# settings of a run, and of what is made of it
_RUN = {
    "predict_draws": (
        'int, "all" or None',
        "Posterior draws that predictions are averaged over, evenly spaced among those that were kept; a variational "
        "posterior is drawn from so often. None takes for each row as many as bring the Monte Carlo error of its class "
        "probabilities below 0.005 (intervals and real outcomes take all). Predictions by a closed form, and of a "
        "point, need none.",
    ),
    "random_state": ("int, RandomState or None", "Seed of every random number: of starts, of draws."),
    "threads": ("int or None", "Threads to use; None takes all there are. Results do not depend on it."),
    "block_rows": (
        "int or None",
        "Rows that are worked on together; other values change the last digits of a bound, and draws. None chooses by "
        "the number of columns.",
    ),
    "engine": (
        "DaskEngine or None",
        "Where the rows are and who works on them: None for the threads of this machine, a `DaskEngine` for the "
        "workers of a cluster. Results do not depend on it where CPUs are of one kind.",
    ),
    "out": (
        "str, path or None",
        "Folder that keeps the run while it goes on: draws, traces and states, as the command line writes them. A fit "
        "that was stopped goes on there if it is called again with the same data and settings; a finished one is read, "
        "or goes on if `n_draws` or `n_chains` is larger now.",
    ),
    "progress": (
        'bool or "auto"',
        'Whether tqdm draws a progress bar; "auto" does so in a terminal or a notebook.',
    ),
}

_ATTRIBUTES = """\
structure_ : str
    The structure that was fitted or chosen, with its input map where `input_map` is "auto".
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


def _entry(parameter, setting, own, more, forms_of):
    """One parameter, from its setting or from what Python has of its own."""
    if setting is None:
        kind, text = own[parameter.name]
    else:
        kind, forms = _setting_type(setting), ""
        if parameter.name in forms_of and setting["kind"] != "integer":  # the family experts has a plain number of them
            kind, forms = forms_of[parameter.name]
        text = " ".join(
            filter(None, [setting["help"].replace("nothing", "None") + ".", forms, more.get(parameter.name)])
        )
    body = textwrap.fill(text, 116, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{parameter.name} : {kind}, default={_shown(parameter.default)}\n{body}"


def documented(cls):
    """Fill in `{parameters}` and `{attributes}` in the docstring of an estimator.

    Parameters that are no settings of the family are in the class's `_own` (name to type and text); `_more` says what
    the class adds to a setting.
    """
    if cls.__doc__ is not None:  # python -OO
        table = {setting["name"]: setting for setting in _core.family_info(cls._family)["settings"]}
        own = _RUN | getattr(cls, "_own", {})
        parameters = inspect.signature(cls).parameters.values()
        # labels have no classes whose weights could be given one by one
        words = {} if hasattr(cls, "_weights_of_classes") else {"class_weight": ('"balanced" or None', "")}
        more = getattr(cls, "_more", {})
        text = "\n".join(_entry(p, table.get(p.name), own, more, _FORMS | words) for p in parameters)
        cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{parameters}", text).replace("{attributes}", _ATTRIBUTES)
    return cls
