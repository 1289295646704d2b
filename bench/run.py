"""Runs every benchmark, both sides of each comparison in turns, and writes `bench/out/results.json` and `results.md`.

    python bench/run.py            # all of them
    python bench/run.py polya-gamma logistic

Needs the Rust toolchain, and for the comparisons NumPy, SciPy and polyagamma (`pip install scipy polyagamma`).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench" / "out"
RELEASE = ROOT / "target" / "release"
# one thread for everything that is compared per thread
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
os.environ.update(ONE_THREAD)
sys.path.insert(0, str(ROOT / "bench"))
import peers  # noqa: E402

ROUNDS = 5


def ours(name, **options):
    """Figures of one call of the benchmark program."""
    words = [f"{key}={value}" for key, value in options.items()]
    done = subprocess.run([RELEASE / "variegate-bench", name, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def polya_gamma():
    rows = []
    draws, repeats = 20_000, 60
    for c in ["0", "1", "4", "20", "mix"]:
        sides = {"variegate": [], "default": [], "devroye": []}
        means = {}
        for _ in range(ROUNDS):
            figures = ours("polya-gamma", c=c, draws=draws, repeats=repeats)
            sides["variegate"] += figures["seconds"]["times"]
            means["variegate"] = figures["mean"]
            for name, method in [("default", None), ("devroye", "devroye")]:
                times, means[name] = peers.polya_gamma(c, draws, repeats, method)
                sides[name] += times
        rate = {side: draws / min(times) for side, times in sides.items()}
        middle = {side: draws / statistics.median(times) for side, times in sides.items()}
        best = max(rate["default"], rate["devroye"])
        rows.append(
            {"c": c, "rate": rate, "median_rate": middle, "means": means, "against_best": rate["variegate"] / best}
        )
    table = [
        "| c | variegate | polyagamma, default | polyagamma, devroye | ratio to the faster |",
        "|---|---|---|---|---|",
    ]
    for r in rows:
        millions = [f"{r['rate'][s] / 1e6:.2f}" for s in ("variegate", "default", "devroye")]
        table.append(f"| {r['c']} | " + " | ".join(millions) + f" | {r['against_best']:.2f} |")
    return {"rows": rows}, ["Million draws of PG(1, c) a second, one thread (target: ratio of at least 1).", "", *table]


def von_mises_fisher():
    rows = []
    # in three dimensions SciPy works on whole arrays, so its rate depends on whether they fit the cache: show both
    cases = [(3, 10.0, 20_000, 60), (3, 10.0, 1_000_000, 10), (100, 50.0, 2_000, 10), (1000, 500.0, 1_000, 3)]
    for dimension, kappa, draws, repeats in cases:
        sides = {"variegate": [], "scipy": []}
        cosines = {}
        for _ in range(ROUNDS):
            figures = ours("von-mises-fisher", dimension=dimension, kappa=kappa, draws=draws, repeats=repeats)
            sides["variegate"] += figures["seconds"]["times"]
            cosines["variegate"] = figures["mean_cosine"]
            times, cosines["scipy"] = peers.von_mises_fisher(dimension, kappa, draws, repeats)
            sides["scipy"] += times
        rate = {side: draws / min(times) for side, times in sides.items()}
        rows.append(
            {
                "dimension": dimension,
                "kappa": kappa,
                "draws": draws,
                "rate": rate,
                "cosines": cosines,
                "ratio": rate["variegate"] / rate["scipy"],
            }
        )
    table = ["| dimension | kappa | draws a call | variegate | SciPy | ratio |", "|---|---|---|---|---|---|"]
    for r in rows:
        a, b = (f"{r['rate'][s]:,.0f}" for s in ("variegate", "scipy"))
        table.append(f"| {r['dimension']} | {r['kappa']:g} | {r['draws']:,} | {a} | {b} | {r['ratio']:.1f} |")
    return {"rows": rows}, ["Von Mises-Fisher draws a second, one thread (target: ratio of at least 5).", "", *table]


def logistic():
    figures = ours("logistic", rows=100_000, columns=50, repeats=150, sweeps=1, threads="1,2")
    table = ["| threads | sweeps a second (best) | median | gain by best | gain by median |", "|---|---|---|---|---|"]
    for lane in figures["lanes"]:
        table.append(
            f"| {lane['threads']} | {lane['sweeps_per_second']:.1f} | {1 / lane['seconds_per_sweep']['median']:.1f} "
            f"| {lane['gain_by_least']:.2f} | {lane['gain_by_median']:.2f} |"
        )
    return figures, [
        "Logistic regression, Gibbs sweeps at 100,000 x 50 (target: gain of at least 1.7 on 2 threads).",
        "",
        *table,
    ]


def softmax():
    rows = []
    for bound, covariance in [("tilted", "joint"), ("tilted", "child"), ("double", "child")]:
        rows.append(
            ours("softmax", rows=100_000, columns=50, classes=6, bound=bound, covariance=covariance, repeats=20)
        )
    table = ["| bound | covariance | ms a pass | GF/s | product rate | share |", "|---|---|---|---|---|---|"]
    for r in rows:
        table.append(
            f"| {r['bound']} | {r['covariance']} | {1e3 * r['seconds_per_pass']['least']:.1f} | {r['gflops']:.1f} "
            f"| {r['product_gflops']:.1f} | {100 * r['share']:.0f} % |"
        )
    words = (
        "One pass of the softmax VB cycle at 100,000 x 50, 6 classes, one thread, "
        "as a share of the rate of a square matrix product (target: at least 40 %)."
    )
    sizes = []
    for count, columns in [(50_000, 50), (100_000, 50), (200_000, 50), (400_000, 50), (100_000, 25), (100_000, 100)]:
        sizes.append(ours("softmax", rows=count, columns=columns, classes=6, covariance="child", repeats=5))
    table += ["", "| rows | columns | ms a pass | ns a row | memory beside the data, bytes a row |"]
    table.append("|---|---|---|---|---|")
    for r in sizes:
        least = r["seconds_per_pass"]["least"]
        table.append(
            f"| {r['rows']:,} | {r['columns']} | {1e3 * least:.0f} | {1e9 * least / r['rows']:.0f} "
            f"| {r['peak_beside_data_bytes'] / r['rows']:.0f} |"
        )
    return {"rows": rows, "sizes": sizes}, [words, "", *table]


def labels():
    found = ours("labels", rows=50_000, threads="1,2")
    table = ["| threads | rows a second | GF/s | product rate, one thread | share |", "|---|---|---|---|---|"]
    for r in found["runs"]:
        table.append(
            f"| {r['threads']} | {r['rows_per_second']:.0f} | {r['gflops']:.2f} | {found['product_gflops']:.2f} "
            f"| {100 * r['share_of_products']:.0f} % |"
        )
    words = (
        "A pass of minibatches of `labels` over 50,000 sparse rows "
        "(50 nonzeros, 10,000 columns, 100 labels, 50 components)."
    )
    # few labels: the sets of labels that were seen, which are kept, do not grow
    sizes = [ours("labels", rows=rows, labels=8, threads="2") for rows in (100_000, 200_000)]
    table += ["", "| rows | data, MB | memory beside them, MB |", "|---|---|---|"]
    for r in sizes:
        table.append(f"| {r['rows']:,} | {r['data_bytes'] / 1e6:.0f} | {r['peak_beside_data_bytes'] / 1e6:.0f} |")
    return {"passes": found, "sizes": sizes}, [words, "", *table]


def large_file():
    """A million rows of text are read and fitted: peak memory of the process against the matrix in memory."""
    variegate = RELEASE / "variegate"
    folder = OUT / "large"
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = 1_000_000, 50
    matrix = 8 * rows * columns
    runs = []
    cases = [
        ("logistic", ["--chains", "1", "--warmup", "2", "--draws", "5"], []),
        ("softmax", ["--max-iter", "3"], ["--classes", "3"]),
    ]
    for family, settings, simulated in cases:
        csv = folder / f"{family}.csv"
        if not csv.exists():
            size = f"--rows {rows} --columns {columns} --seed 1 -o".split()
            subprocess.run([variegate, "simulate", family, *simulated, *size, csv], check=True)
        run = folder / f"run-{family}"
        command = [variegate, "fit", family, csv, "--target", "label", "--seed", "1", "--force", "--out", run]
        begin = time.perf_counter()
        child = subprocess.Popen([*command, *settings, "--quiet"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 3):
            raise SystemExit(f"fit {family} ended with exit code {code}")
        peak = usage.ru_maxrss * 1024
        runs.append(
            {
                "family": family,
                "file_bytes": csv.stat().st_size,
                "seconds": seconds,
                "peak_bytes": peak,
                "ratio": peak / matrix,
            }
        )
    table = ["| family | file | read and fitted in | peak memory | against the matrix |", "|---|---|---|---|---|"]
    for r in runs:
        sizes = f"{r['file_bytes'] / 1e6:.0f} MB | {r['seconds']:.0f} s | {r['peak_bytes'] / 1e6:.0f} MB"
        table.append(f"| {r['family']} | {sizes} | {r['ratio']:.2f} |")
    words = "A 1,000,000 x 50 CSV read and fitted (400 MB as a matrix; target: peak below 3 times that)."
    return {"matrix_bytes": matrix, "runs": runs}, [words, "", *table]


BENCHMARKS = {
    "polya-gamma": polya_gamma,
    "von-mises-fisher": von_mises_fisher,
    "logistic": logistic,
    "softmax": softmax,
    "labels": labels,
    "large-file": large_file,
}


def machine():
    model = "unknown processor"
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, load average {os.getloadavg()[0]:.1f} at the start"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; all of them if none is named"
    )
    parser.add_argument("--no-build", action="store_true", help="use the release binaries that are there")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(BENCHMARKS)}")
    if not given.no_build:
        build = ["cargo", "build", "--release", "--package", "variegate-bench", "--package", "variegate-cli"]
        subprocess.run(build, cwd=ROOT, check=True)
    OUT.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "command": " ".join(["python", "bench/run.py", *sys.argv[1:]])}
    lines = [f"Machine: {results['machine']}. Command: `{results['command']}`."]
    for name in given.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr)
        results[name], table = BENCHMARKS[name]()
        print("\n".join(table), end="\n\n", flush=True)
        lines += ["", f"## {name}", "", *table]
        (OUT / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (OUT / "results.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
