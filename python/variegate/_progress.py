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
            done = sum(finished for _, _, _, _, finished, *_ in chains)
            # an ascent may arrive early, and a search may go on with further chains
            bar.total = sum(sweeps if finished else total for _, sweeps, total, _, finished, *_ in chains)
            objectives = [objective for *_, objective, _ in chains if not math.isnan(objective)]
            state = {"objective": f"{max(objectives):.6g}"} if objectives else {}
            if len(chains) > 1 and done:
                state["chains"] = f"{done}/{len(chains)}"
            bar.set_postfix(state, refresh=False)
            bar.update(sum(sweeps for _, sweeps, *_ in chains) - bar.n)

        yield advance
