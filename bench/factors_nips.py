"""How well the other half of an article is predicted: shared factors beside topic models, and with few articles.

    python bench/factors_nips.py DATA                                  # DATA/X.mtx.gz, DATA/docs.csv.gz
    python bench/factors_nips.py DATA --methods unigram,cache,lda,hdp,hpf,nmf     # the peers alone
    python bench/factors_nips.py DATA --experiments curve --rows 10,20,40,80 --auxiliary NS,CS
    python bench/factors_nips.py --synthetic                           # generated images; needs no data

completion  Articles of all sections are fitted; of each test article half of the tokens, drawn once, are shown and the
            other half is scored: exp(-sum x_held log p / sum x_held), p a distribution over the whole vocabulary.
curve       A target section with few articles and an auxiliary section: ours fitted to the target only, to both as one
            source, and to both as two.
synthetic   The same three on 10 x 10 images from twelve known factors, beside the perplexity of the true rates.

Runs differ in the articles drawn for training and in the seed of the method; the test articles, their halves and the
words are the same throughout. ± is a standard error over runs, for differences the half width of Student's 95 %
interval over runs, paired. The data are not part of the project. Needs NumPy, SciPy and pandas; tomotopy, hpfrec,
scikit-learn and variegate are left out, with a message, where they are missing. The K and eta of a peer are listed
all; the best of them is the best on the test articles, which flatters the peer a little. `chosen-lda` has those that
complete an eighth of the training articles best; its seconds include the choice.
"""

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _factors_data import NINE, Articles, cell, generated, log_scores, perplexity, print_table, spread
from _factors_peers import cache, chosen_lda, hdp, hpf, lda, nmf, unigram

NEEDS = {
    "lda": "tomotopy",
    "chosen-lda": "tomotopy",
    "hdp": "tomotopy",
    "hpf": "hpfrec",
    "nmf": "sklearn",
    "ours": "variegate",
}
METHODS = ("unigram", "cache", "lda", "chosen-lda", "hdp", "hpf", "nmf", "ours")
VERSIONS = ("target only", "pooled", "hierarchical")


def ours(train, sources, observed, test_sources, seed, settings):
    """The only place that calls variegate. Returns the distributions and a note."""
    from variegate import SharedFactorModel

    model = SharedFactorModel(likelihood="poisson", random_state=seed, **settings).fit(train, sources=sources)
    completed = np.asarray(model.complete(observed, sources=test_sources, exposure=0.5))
    return completed, f"{model.n_factors_draws_.mean():.0f} factors"


def fitted(version, target, aside, observed, seed, settings):
    """Distributions of test rows of the target by a version of ours, and the seconds it took."""
    n, m, t = target.shape[0], aside.shape[0], observed.shape[0]
    both = sp.vstack([target, aside]).tocsr()
    rows, sources, test_source = {
        "target only": (target, ["target"] * n, "target"),
        "pooled": (both, ["all"] * (n + m), "all"),
        "hierarchical": (both, ["target"] * n + ["auxiliary"] * m, "target"),
    }[version]
    begin = time.time()
    p, _ = ours(rows, np.array(sources), observed, np.array([test_source] * t), seed, settings)
    return p, time.time() - begin


def systems(given, articles):
    """Name of what is reported, the method it belongs to, and the call."""

    def peer(method, *more):
        return lambda train, sources, run: method(train, articles.observed, run, *more)

    makes = {
        "unigram": [("unigram", peer(unigram))],
        "cache": [("unigram and the shown words", peer(cache))],
        "lda": [(f"LDA, K = {k}, eta = {e}", peer(lda, given, k, e)) for k in given.topics for e in given.eta],
        "chosen-lda": [("LDA, K and eta chosen", peer(chosen_lda, given))],
        "hdp": [(f"HDP from K = {k}, eta = {e}", peer(hdp, given, k, e)) for k in given.hdp_topics for e in given.eta],
        "hpf": [(f"HPF, K = {k}", peer(hpf, given, k)) for k in given.hpf_factors],
        "nmf": [(f"NMF, K = {k}", peer(nmf, k)) for k in given.topics],
        "ours": [
            (
                "shared factors",
                lambda train, sources, run: ours(
                    train, sources, articles.observed, articles.test_sections, run, given.ours
                ),
            ),
        ],
    }
    return [(name, method, call) for method in given.methods for name, call in makes[method]]


def completion(given, articles, keep):
    found = {}
    for run in range(given.runs):
        parts = {s: articles.train(s, given.train_docs, run) for s in given.sections}
        train = sp.vstack([*parts.values()]).tocsr()
        sources = np.repeat([*parts], [part.shape[0] for part in parts.values()])
        for name, method, call in systems(given, articles):
            begin, busy = time.time(), time.process_time()
            p, note = call(train, sources, run)
            seconds, busy = time.time() - begin, time.process_time() - busy
            logs, tokens = log_scores(p, articles.held), np.asarray(articles.held.sum(axis=1)).ravel()
            by_section = {
                s: float(np.exp(-logs[at].sum() / tokens[at].sum()))
                for s in given.sections
                if (at := articles.test_sections == s).any()
            }
            score = float(np.exp(-logs.sum() / tokens.sum()))
            entry = found.setdefault(
                name, {"method": method, "perplexity": [], "seconds": [], "cpu": [], "note": [], "by": []}
            )
            for key, value in zip(entry, (method, score, seconds, busy, note, by_section), strict=True):
                if key != "method":
                    entry[key].append(value)
            print(
                f"run {run}: {name}: {score:.1f}, {seconds:.0f} s, {busy:.0f} s of CPU, {note}",
                file=sys.stderr,
                flush=True,
            )
            keep("completion", found)
    mine, rows = found.get("shared factors"), []
    for name, e in found.items():
        kin = [np.mean(o["perplexity"]) for o in found.values() if o["method"] == e["method"]]
        label = f"**{name}** (best)" if len(kin) > 1 and np.mean(e["perplexity"]) == min(kin) else name
        gap = "" if mine is None or e is mine else cell(np.subtract(e["perplexity"], mine["perplexity"]), "half")
        seconds = [f"{np.mean(e[key]):.0f}" for key in ("seconds", "cpu")]
        rows.append((label, cell(e["perplexity"]), gap, *seconds, e["note"][-1]))
    tests = ", ".join(f"{s} {(articles.test_sections == s).sum()}" for s in given.sections)
    title = f"Completion: {train.shape[0]} articles to fit, {train.shape[1]} words, {given.runs} runs; test articles: "
    title += f"{tests}, of which {articles.held.sum()} tokens are to be predicted"
    print_table(title, ("method", "perplexity", "above ours", "seconds a run", "CPU seconds", "last run"), rows)


def differences(title, first, found):
    """Table of the three versions by number of rows; `found[rows][version]` has a value for each run."""
    lines = []
    for n, by in found.items():
        gaps = [np.subtract(by["hierarchical"], by[v]) for v in VERSIONS[:2]]
        reached = all(s["mean"] <= 2 * (s["se"] or 0) for s in map(spread, gaps))
        intervals = [cell(gap, "half") for gap in gaps]
        lines.append((n, *map(cell, by.values()), *intervals, "yes" if reached else "no"))
    columns = [*next(iter(found.values())), "hierarchical - target only", "hierarchical - pooled"]
    print_table(title, (first, *columns, "not above either by 2 standard errors"), lines)


def curve(given, articles, keep):
    observed, held = articles.test_of(given.target)
    raw, mean = [], {}
    for n in given.rows:
        mean[n] = {v: [] for v in VERSIONS}
        for run in range(given.runs):
            target = articles.train(given.target, n, run)
            for version in VERSIONS:
                scores = []
                # the auxiliary section does not matter to the target alone
                for name in given.auxiliary[:1] if version == "target only" else given.auxiliary:
                    aside = articles.train(name, given.train_docs, run)
                    p, seconds = fitted(version, target, aside, observed, run, given.ours)
                    scores.append(perplexity(p, held))
                    about = {"rows": n, "run": run, "auxiliary": name, "version": version}
                    raw.append({**about, "perplexity": scores[-1], "seconds": seconds})
                    print(raw[-1], file=sys.stderr, flush=True)
                mean[n][version].append(float(np.mean(scores)))
                keep("curve", raw)
    title = f"{given.target} with {', '.join(given.auxiliary)} in turn, {held.shape[0]} test articles"
    differences(f"{title}, {given.runs} runs", f"{given.target} articles", mean)


def synthetic(given, keep):
    found, raw = {}, []
    for n in given.synthetic_rows:
        found[n] = {v: [] for v in (*VERSIONS, "true rates")}
        for run in range(given.runs):
            target, aside, observed, held, truth = generated(n, run)
            found[n]["true rates"].append(perplexity(truth, held))
            for version in VERSIONS if "ours" in given.methods else ():
                p, seconds = fitted(version, target, aside, observed, run, given.ours)
                found[n][version].append(perplexity(p, held))
                about = {"rows": n, "run": run, "version": version}
                raw.append({**about, "perplexity": found[n][version][-1], "seconds": seconds})
            keep("synthetic", {"fits": raw, "true rates": found[n]["true rates"]})
    if "ours" in given.methods:
        differences(f"Generated images, 100 auxiliary rows, {given.runs} runs", "target rows", found)
    else:
        print(f"true rates: {cell(found[given.synthetic_rows[0]]['true rates'])}")


def main():
    def listed(kind):
        return lambda text: [kind(word) for word in text.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", type=Path, nargs="?", help="folder with X.mtx.gz and docs.csv.gz")
    add("--experiments", type=listed(str), default=["completion", "curve"], help="completion,curve")
    add("--synthetic", action="store_true", help="the generated images in place of the articles")
    add("--methods", type=listed(str), default=[*METHODS], help=",".join(METHODS))
    add("--sections", type=listed(str), default=[*NINE])
    add("--runs", type=int, default=3)
    add("--train-docs", type=int, default=80, help="training articles of a section, fewer if it has fewer")
    add("--test-docs", type=int, default=40, help="at most so many test articles of a section that marks none")
    add("--min-docs", type=int, default=3, help="words in fewer articles of the pool are left out")
    add("--topics", type=listed(int), default=[20, 50, 100, 200], help="K of LDA and of NMF")
    add("--eta", type=listed(float), default=[0.01, 0.05], help="Dirichlet parameter of the words of a topic")
    add("--hdp-topics", type=listed(int), default=[20, 50], help="K with which HDP starts")
    add("--hpf-factors", type=listed(int), default=[30])
    add("--sweeps", type=int, default=300, help="of the Gibbs samplers of LDA and HDP")
    add("--states", type=int, default=10, help="of their chains, over which predictions are averaged")
    add("--threads", type=int, default=1, help="of LDA, HDP and HPF")
    add("--target", default="VP")
    add("--auxiliary", type=listed(str), default=["NS", "AA", "CS"], help="sections, or all")
    add("--rows", type=listed(int), default=[10, 20, 40, 80], help="training articles of the target")
    add("--synthetic-rows", type=listed(int), default=[5, 10, 20, 40, 80])
    add("--ours", type=json.loads, default={}, help="settings of SharedFactorModel as JSON")
    add("--out", type=Path, help="JSON of everything measured, written as it comes")
    given = parser.parse_args()
    if unknown := set(given.methods) - set(METHODS):
        parser.error(f"unknown methods: {', '.join(sorted(unknown))}")
    if given.data is None and not given.synthetic:
        parser.error("DATA is needed but for --synthetic")
    for method in [m for m in given.methods if m in NEEDS and importlib.util.find_spec(NEEDS[m]) is None]:
        print(f"{method} left out: no package {NEEDS[method]}", file=sys.stderr)
        given.methods.remove(method)
    if "ours" in given.methods:
        try:
            from variegate import SharedFactorModel  # noqa: F401
        except ImportError as error:
            print(f"ours left out: {error}", file=sys.stderr)
            given.methods.remove("ours")
    results = {"settings": {k: str(v) if isinstance(v, Path) else v for k, v in vars(given).items()}}

    def keep(name, found):
        results[name] = found
        if given.out:
            given.out.write_text(json.dumps(results, indent=1))

    if given.synthetic:
        synthetic(given, keep)
        return
    if given.auxiliary == ["all"]:
        given.auxiliary = [s for s in given.sections if s != given.target]
    articles = Articles(given.data, given.sections, given.train_docs, given.test_docs, given.min_docs)
    if "completion" in given.experiments:
        completion(given, articles, keep)
    if "curve" in given.experiments:
        if "ours" in given.methods:
            curve(given, articles, keep)
        else:
            print("curve left out: it compares versions of ours", file=sys.stderr)


if __name__ == "__main__":
    main()
