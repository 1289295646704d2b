"""A bar that follows a fit, drawn by tqdm, and a word on how long it will take."""

import contextlib
import math
import sys
import time

# after so many seconds a fit says how long it will take, if that is longer than so many
_FORECAST_AFTER, _LONG = 3.0, 60.0
_FEWEST_DRAWS = 50


def _someone_looks_on():
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _duration(seconds):
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def forecast(seconds, chains, n_warmup, n_draws, thin):
    """Say how long chains take in all, and under which settings about a minute; None for what is short."""
    if seconds <= _LONG:
        return None
    sweeps = n_warmup + n_draws * thin
    text = f"about {_duration(seconds)} for {chains} chains of {sweeps:,} sweeps, at the pace so far"
    # rounded to fifties
    warmup, draws = (min(n, max(_FEWEST_DRAWS, 50 * round(n * _LONG / seconds / 50))) for n in (n_warmup, n_draws))
    shorter = seconds * (warmup + draws * thin) / sweeps
    if shorter > 0.7 * seconds:
        return text
    return f"{text}; n_warmup={warmup}, n_draws={draws} would take about {_duration(shorter)}, for a first look"


class _Forecast:
    """Says once how long chains will take; ascents end when they arrive, which nobody knows."""

    def __init__(self, title, schedule, say):
        self.title, self.schedule, self.say = title, schedule, say
        self.begin, self.sampling, self.before = time.monotonic(), False, None

    def __call__(self, chains):
        done = sum(sweeps for _, sweeps, *_ in chains)
        self.before = done if self.before is None else self.before
        # only samplers have a warm-up
        self.sampling |= any(warm_up for _, _, _, warm_up, *_ in chains)
        elapsed = time.monotonic() - self.begin
        if self.schedule is None or not self.sampling or elapsed < _FORECAST_AFTER or done == self.before:
            return
        total = sum(total for _, _, total, *_ in chains)
        text = forecast(elapsed / (done - self.before) * total, len(chains), *self.schedule)
        self.schedule = None
        if text is not None:
            self.say(f"{self.title}: {text}")


@contextlib.contextmanager
def follow(progress, title, schedule=None):
    """Give a callback for the fit, or None where no bar is wanted.

    Parameters
    ----------
    progress : bool or "auto"
        "auto" draws a bar in a terminal or a notebook if tqdm is installed.
    title : str
        What is being fitted.
    schedule : tuple of int, default=None
        Sweeps of the warm-up, draws and sweeps a draw, where the model can be sampled: a long fit then says at its
        start how long it will take.
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
            yield _Forecast(title, schedule, lambda text: print(text, file=sys.stderr))
            return
        raise ImportError(
            "`progress=True` draws its bar with tqdm: install tqdm, or leave `progress` at its default"
        ) from None

    # short fits should not leave a bar behind unless it was asked for
    delay = 0.0 if progress is True else 0.5
    with tqdm(desc=title, unit=" sweeps", delay=delay, dynamic_ncols=True) as bar:
        tell = _Forecast(title, schedule, lambda text: bar.write(text, file=sys.stderr))

        def advance(chains):
            tell(chains)
            done = sum(finished for _, _, _, _, finished, *_ in chains)
            # an ascent may arrive early, and a search may go on with further chains
            bar.total = sum(sweeps if finished else total for _, sweeps, total, _, finished, *_ in chains)
            objectives = [objective for *_, objective, _, _ in chains if not math.isnan(objective)]
            state = {"objective": f"{max(objectives):.6g}"} if objectives else {}
            # what a search tries: the last chain that still runs, or the last that ran
            tried = [(not finished, works_on) for _, _, _, _, finished, *_, works_on in chains if works_on]
            if tried:
                state["trying"] = next((what for runs, what in reversed(tried) if runs), tried[-1][1])
            if len(chains) > 1 and done:
                state["chains"] = f"{done}/{len(chains)}"
            bar.set_postfix(state, refresh=False)
            bar.update(sum(sweeps for _, sweeps, *_ in chains) - bar.n)

        yield advance
