"""A bar that follows a fit, drawn by tqdm."""

import contextlib
import math
import sys


def _someone_looks_on():
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


@contextlib.contextmanager
def follow(progress, title):
    """Give a callback for the fit, or None where no bar is wanted.

    Parameters
    ----------
    progress : bool or "auto"
        "auto" draws a bar in a terminal or a notebook if tqdm is installed.
    title : str
        What is being fitted.
    """
    if progress not in (True, False, "auto"):
        raise ValueError(f'`progress` is {progress!r}, but it must be True, False or "auto"')
    if progress is False or (progress == "auto" and not _someone_looks_on()):
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if progress == "auto":
            yield None
            return
        raise ImportError(
            "`progress=True` draws its bar with tqdm: install tqdm, or leave `progress` at its default"
        ) from None

    # short fits should not leave a bar behind unless it was asked for
    delay = 0.0 if progress is True else 0.5
    with tqdm(desc=title, unit=" sweeps", delay=delay, dynamic_ncols=True) as bar:

        def advance(chains):
            bar.total = sum(total for _, _, total, *_ in chains)
            objectives = [objective for *_, objective, _ in chains if not math.isnan(objective)]
            if objectives:
                bar.set_postfix(objective=f"{max(objectives):.6g}", refresh=False)
            if all(chain[4] for chain in chains):
                bar.total = sum(sweeps for _, sweeps, *_ in chains)  # an ascent may arrive early
            bar.update(sum(sweeps for _, sweeps, *_ in chains) - bar.n)

        yield advance
