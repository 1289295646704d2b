"""Generate what `special` and its tests take from high-precision arithmetic.

    python tools/special_tables.py            # needs mpmath

writes, under crates/variegate/src/special/:

* coefficients.rs   expansion coefficients (uniform Bessel expansion, Mills ratio, digamma at its zero, Gauss-Legendre)
* tables/*.csv      reference values at exactly representable arguments, rounded to 20 digits

Both are committed; run it again only to change the points or the coefficients.
"""

import random
from fractions import Fraction
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
HERE = Path(__file__).resolve().parent.parent / "crates/variegate/src/special"
BESSEL_TERMS = 18
MILLS_CENTRE, MILLS_PIECES, MILLS_DEGREE = 4, 64, 6
DIGAMMA_TERMS = 24


def digits(value, n=20):
    if mp.isinf(value):
        return "inf" if value > 0 else "-inf"
    return mp.nstr(value, n, strip_zeros=True, min_fixed=-4, max_fixed=4)


def rust(value):
    """The nearest double, in the shortest form that reads back as it."""
    return repr(float(value))


# --- expansions -----------------------------------------------------------------------------------------------------


def uniform_bessel():
    """q_k with u_k(p) = p^k q_k(p^2), from u_{k+1} = p^2(1-p^2)/2 u_k' + 1/8 int_0^p (1-5t^2) u_k dt."""
    u = {0: Fraction(1)}  # exponent -> coefficient
    rows = []
    for k in range(BESSEL_TERMS):
        rows.append([u.get(k + 2 * i, Fraction(0)) for i in range(k + 1)])
        nxt = {}
        for e, c in u.items():
            nxt[e + 1] = nxt.get(e + 1, 0) + c * (Fraction(e, 2) + Fraction(1, 8 * (e + 1)))
            nxt[e + 3] = nxt.get(e + 3, 0) - c * (Fraction(e, 2) + Fraction(5, 8 * (e + 3)))
        u = nxt
    return rows


def mills(x):
    """(1 - Phi(x)) / phi(x)."""
    x = mp.mpf(x)
    if x > 1000:  # erfc underflows nowhere in mpmath, but its asymptotic series is quicker by hand
        total, term, k = mp.mpf(0), 1 / x, 0
        while abs(term) > mp.mpf(10) ** -50 / x:
            total += term
            k += 1
            term *= -(2 * k - 1) / x**2
        return total
    return mp.sqrt(mp.pi / 2) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2))


def mills_pieces():
    """(x + c) M(x) as polynomials in u = N t - i - 1/2 on the pieces i of t = c / (x + c) in [0, 1]."""
    c, n, degree = MILLS_CENTRE, MILLS_PIECES, MILLS_DEGREE
    rows, worst = [], mp.mpf(0)

    def target(t):
        return mp.mpf(1) if t == 0 else (c / t) * mills(c / t - c)

    for i in range(n):
        nodes = [mp.cos(mp.pi * (2 * j + 1) / (2 * (degree + 1))) / 2 for j in range(degree + 1)]
        values = [target((u + i + mp.mpf(1) / 2) / n) for u in nodes]
        matrix = mp.matrix(degree + 1, degree + 1)
        for r, u in enumerate(nodes):
            for s in range(degree + 1):
                matrix[r, s] = u**s
        row = list(mp.lu_solve(matrix, mp.matrix(values)))
        rows.append(row)
        for j in range(11):
            u = mp.mpf(j) / 10 - mp.mpf(1) / 2
            worst = max(worst, abs(mp.polyval(row[::-1], u) / target((u + i + mp.mpf(1) / 2) / n) - 1))
    print(f"Mills ratio: interpolation error {mp.nstr(worst, 3)}")
    return rows


def legendre(n):
    """Positive nodes and their weights, by Newton's method on the three-term recurrence."""
    half = []
    for i in range(n // 2):
        x = mp.cos(mp.pi * (i + mp.mpf(3) / 4) / (n + mp.mpf(1) / 2))
        for _ in range(8):
            below, here = mp.mpf(1), x
            for k in range(2, n + 1):
                below, here = here, ((2 * k - 1) * x * here - (k - 1) * below) / k
            slope = n * (x * here - below) / (x * x - 1)
            x -= here / slope
        half.append((x, 2 / ((1 - x * x) * slope**2)))
    assert abs(sum(w for _, w in half) - 1) < mp.mpf(10) ** -40
    return half


def write_coefficients():
    out = [
        "//! Expansion coefficients, written by `tools/special_tables.py` in 60-digit arithmetic; not edited by hand.",
        "#![allow(clippy::excessive_precision, clippy::approx_constant, clippy::unreadable_literal)]",
        "",
        "/// `u_k(p) = p^k * sum_i UNIFORM[k][i] p^(2i)` of the uniform expansion of `I_nu`.",
        f"pub(super) const UNIFORM: [&[f64]; {BESSEL_TERMS}] = [",
    ]
    out += [f"    &[{', '.join(rust(c) for c in row)}]," for row in uniform_bessel()]
    eta_zero = mp.findroot(lambda z: mp.sqrt(1 + z * z) - mp.asinh(1 / z), 0.66)
    hi = float(eta_zero)
    out += [
        "];",
        "/// Zero `z0` of `sqrt(1+z^2) - asinh(1/z)`, in two parts, and `sqrt(1+z0^2)`.",
        f"pub(super) const ETA_ZERO: (f64, f64) = ({rust(hi)}, {rust(eta_zero - hi)});",
        f"pub(super) const ETA_ZERO_ROOT: f64 = {rust(mp.sqrt(1 + eta_zero**2))};",
        "",
        f"/// Pieces of `(x + c) M(x)` over `t = c/(x + c)`, `c = {MILLS_CENTRE}`; `M` is the Mills ratio.",
        f"pub(super) const MILLS_CENTRE: f64 = {rust(MILLS_CENTRE)};",
        f"pub(super) const MILLS: [[f64; {MILLS_DEGREE + 1}]; {MILLS_PIECES}] = [",
    ]
    out += [f"    [{', '.join(rust(c) for c in row)}]," for row in mills_pieces()]
    zero = mp.findroot(lambda v: mp.digamma(v), 1.4616)
    hi = float(zero)
    taylor = [mp.psi(j, zero) / mp.factorial(j) for j in range(1, DIGAMMA_TERMS + 1)]
    out += [
        "];",
        "/// Zero of digamma, in two parts, and the Taylor coefficients there, from the linear one on.",
        f"pub(super) const DIGAMMA_ZERO: (f64, f64) = ({rust(hi)}, {rust(zero - hi)});",
        f"pub(super) const DIGAMMA_TAYLOR: [f64; {DIGAMMA_TERMS}] = [{', '.join(rust(c) for c in taylor)}];",
        "",
        "/// Positive nodes and weights of the 16-point Gauss-Legendre rule on [-1, 1].",
        "pub(crate) const LEGENDRE: [(f64, f64); 8] = [",
    ]
    out += [f"    ({rust(x)}, {rust(w)})," for x, w in legendre(16)]
    out += ["];", ""]
    (HERE / "coefficients.rs").write_text("\n".join(out))


# --- reference values -----------------------------------------------------------------------------------------------


def bessel_i(nu, x):
    """Logarithm of I_nu(x) by its power series, summed outwards from the largest term: positive terms only."""
    nu, x = mp.mpf(nu), mp.mpf(x)
    q = x * x / 4
    peak = int(mp.floor((mp.sqrt(nu * nu + x * x) - nu) / 2))
    scale = 1 << 240
    q_int, nu_int = int(mp.floor(q * 2**120)), int(nu * 2**60)
    if mp.mpf(nu_int) / 2**60 != nu:
        raise ValueError("order needs more than 60 fractional bits")

    def ratio(k):  # term k over term k-1, as a fixed-point pair
        return q_int, k * ((nu_int + (k << 60)) << 60)

    total, term, k = scale, scale, peak
    while term:
        k += 1
        num, den = ratio(k)
        term = term * num // den
        total += term
    term, k = scale, peak
    while term and k > 0:
        num, den = ratio(k)
        term = term * den // num
        total += term
        k -= 1
    log_peak = (nu + 2 * peak) * mp.log(x / 2) - mp.loggamma(peak + 1) - mp.loggamma(nu + peak + 1)
    return log_peak + mp.log(mp.mpf(total) / scale)


def numbers(text):
    return [float(word) for word in text.split()]


def log_uniform(rng, lo, hi):
    return lo * (hi / lo) ** rng.random()


def write_table(name, header, rows):
    lines = [",".join(header)]
    for row in rows:
        lines.append(",".join(repr(v) if isinstance(v, float) else digits(v) for v in row))
    (HERE / "tables" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(rows)} rows")


def bessel_table(rng):
    points = set()
    orders = numbers("0 0.5 1 1.5 2 4.5 9 10 23.5 24 49 99 383 499 2499.5 4999 5000")
    arguments = numbers("1e-300 1e-8 1e-3 0.1 0.5 1 2 2.5 5 10 20 23.9 24.1 30 50 100 141.5 300 1e3 3313.7 1e4 1e5 1e6")
    for nu in orders:
        for x in arguments:
            points.add((nu, x))
        for _ in range(4):  # near the zero of ln I_nu, where its terms cancel
            points.add((nu, float(max(0.1, 0.66274 * nu * (1 + 0.03 * rng.gauss(0, 1)) + 1.3))))
    for _ in range(200):
        nu = round(2 * log_uniform(rng, 0.5, 5000.0)) / 2
        points.add((nu, log_uniform(rng, 1e-2, 1e6)))
        points.add((nu, max(1e-3, nu) * log_uniform(rng, 0.05, 20.0)))
        nu = float(Fraction(log_uniform(rng, 0.01, 5000.0)).limit_denominator(1) + Fraction(rng.randrange(64), 64))
        points.add((nu, log_uniform(rng, 0.1, 3e4)))
    for _ in range(150):  # around the change of method
        nu = rng.randrange(0, 1700) / 64
        points.add((nu, abs(24 * 24 - nu * nu) ** 0.5 * (1 + 0.05 * rng.gauss(0, 1)) + 1e-3))
    rows = []
    for nu, x in sorted(points):
        if x < 1e-290:
            here = nu * mp.log(mp.mpf(x) / 2) - mp.loggamma(mp.mpf(nu) + 1)
            above = (nu + 1) * mp.log(mp.mpf(x) / 2) - mp.loggamma(mp.mpf(nu) + 2)
        else:
            here, above = bessel_i(nu, x), bessel_i(nu + 1, x)
        rows.append((nu, x, here, here - mp.mpf(x), mp.exp(above - here)))
    write_table("bessel", ("nu", "x", "ln_i", "ln_i_minus_x", "ratio"), rows)


def gamma_table(rng):
    xs = {*numbers("1e-300 1e-10 0.5 1 2 3 1e10 1e15 1e100 1e300 1.4616321449683623 1.46163214496836 171.5")}
    xs |= {1 + 1e-10, 2 - 1e-10}
    xs |= {log_uniform(rng, 1e-12, 1e12) for _ in range(150)} | {rng.uniform(0.0, 12.0) for _ in range(200)}
    xs |= {1 + rng.gauss(0, 1) * 10.0 ** -rng.randrange(1, 12) for _ in range(40)}
    xs |= {2 + rng.gauss(0, 1) * 10.0 ** -rng.randrange(1, 12) for _ in range(40)}
    xs |= {1.4616321449683623 + rng.gauss(0, 1) * 10.0 ** -rng.randrange(1, 12) for _ in range(40)}
    rows = []
    for x in sorted(v for v in xs if v > 0):
        v = mp.mpf(x)
        with mp.workdps(80 if x < 1e20 else 400):
            rows.append((x, mp.loggamma(v), mp.digamma(v), mp.psi(1, v) if x < 1e20 else 1 / v + 1 / (2 * v * v)))
    write_table("gamma", ("x", "ln_gamma", "digamma", "trigamma"), rows)


def beta_table(rng):
    small = numbers("1 0.5 1e-10 1e-300 1e6 1e3 9 10 1e300 1e150 2.5")
    large = numbers("1 0.5 1e10 3 1e6 1e10 1e6 10 2 1e160 1e16")
    pairs = {*zip(small, large, strict=True)}
    for _ in range(400):
        pairs.add((log_uniform(rng, 1e-8, 1e10), log_uniform(rng, 1e-8, 1e10)))
        pairs.add((log_uniform(rng, 0.05, 40.0), log_uniform(rng, 0.05, 40.0)))
    rows = []
    for a, b in sorted(pairs):
        with mp.workdps(80 if max(a, b) < 1e20 else 500):
            rows.append((a, b, mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(mp.mpf(a) + mp.mpf(b))))
    write_table("beta", ("a", "b", "ln_beta"), rows)


def logistic_table(rng):
    xs = {0.0, 1e-300, -1e-300, 36.7, -36.7, 700.0, -700.0, 744.0, -744.0, 1e4, -1e4, 1e-17, -1e-17}
    xs |= {rng.uniform(-50, 50) for _ in range(150)} | {rng.gauss(0, 1) for _ in range(100)}
    xs |= {s * log_uniform(rng, 1e-12, 700) for s in (-1, 1) for _ in range(75)}
    rows = []
    for x in sorted(xs):
        v = mp.mpf(x)
        with mp.workdps(700 if x < -100 else 350):
            rows.append((x, mp.log1p(mp.exp(v)), 1 / (1 + mp.exp(-v)), -mp.log1p(mp.exp(-v))))
    write_table("logistic", ("x", "log1p_exp", "sigmoid", "ln_sigmoid"), rows)


def sum_table(rng):
    rows = []
    for _ in range(120):
        spread = log_uniform(rng, 1e-3, 1e3)
        values = tuple(rng.gauss(0, 1) * spread + rng.choice((0.0, 0.0, 700.0, -700.0)) for _ in range(4))
        with mp.workdps(400):
            rows.append((*values, mp.log(sum(mp.exp(mp.mpf(v)) for v in values))))
    write_table("sum", ("v1", "v2", "v3", "v4", "log_sum_exp"), rows)


def normal_table(rng):
    xs = {0.0, -1e-300, 1e-10, -1e-10, -37.5, -38.4, -40.0, -100.0, -1e3, -1e5, -1e8, 8.3, 9.0, 20.0, 37.0}
    xs |= {rng.uniform(-38, 9) for _ in range(250)} | {rng.gauss(0, 1) for _ in range(150)}
    xs |= {-log_uniform(rng, 1e-6, 1e8) for _ in range(100)}
    rows = []
    for x in sorted(xs):
        v = mp.mpf(x)
        with mp.workdps(400):
            upper = mp.exp(-v * v / 2) / mp.sqrt(2 * mp.pi) * mills(abs(v)) if abs(v) < 60 else mp.mpf(0)
            cdf = upper if x < 0 else 1 - upper
            log = (-v * v / 2 - mp.log(2 * mp.pi) / 2 + mp.log(mills(-v))) if x < 0 else mp.log1p(-upper)
        rows.append((x, cdf if x > -60 else mp.mpf(0), log, mills(abs(v))))
    write_table("normal", ("x", "norm_cdf", "ln_norm_cdf", "mills_of_abs"), rows)


def elementary_table(rng):
    """ln(1 + x), and sine and cosine of t quarter turns; a row has both, of unrelated arguments."""
    half = mp.sqrt(mp.mpf(1) / 2)
    xs = [0.0, 1e-300, -1e-300, 2.0**-53, -(2.0**-53), -(1 - 2.0**-53), 1.0, 2.0**53, 2.0**54 + 4, 1e299]
    xs += [-rng.random() for _ in range(300)] + [-(1 - log_uniform(rng, 1e-16, 1.0)) for _ in range(200)]
    xs += [s * log_uniform(rng, 1e-20, 0.9) for s in (-1, 1) for _ in range(150)]
    xs += [log_uniform(rng, 1e-3, 1e20) for _ in range(150)]
    for e in range(-8, 9):  # where the exponent changes
        xs += [float(half * mp.mpf(2) ** e * (1 + rng.gauss(0, 1) * mp.mpf(2) ** -k) - 1) for k in (52, 50, 40, 20)]
    ts = [0.0, 0.5, -0.5, 2.0**-53, 1 / 3, -1 / 3, 0.25, 1e-300]
    ts += [rng.random() - 0.5 for _ in range(len(xs) - 200 - len(ts))]
    ts += [s * log_uniform(rng, 1e-18, 0.5) for s in (-1, 1) for _ in range(100)]
    rows = []
    for x, t in zip(xs, ts, strict=True):
        angle = mp.pi / 2 * mp.mpf(t)
        with mp.workdps(400):
            ln = mp.log1p(mp.mpf(x))
        rows.append((x, t, ln, mp.sin(angle), mp.cos(angle)))
    write_table("elementary", ("x", "t", "ln_1p", "sin_quarters", "cos_quarters"), rows)


def exponential_table(rng):
    xs = [0.0, -1e-300, -(2.0**-53), -(2.0**-54), -1.0, -707.0, -708.0, -0.5, -36.7]
    xs += [-708 * rng.random() for _ in range(400)] + [-log_uniform(rng, 1e-18, 700) for _ in range(300)]
    for k in (0, 1, 2, 7, 50, 500, 1020):  # where the nearest multiple of ln 2 changes, and at the multiples
        for half in (mp.mpf(0), mp.mpf(1) / 2):
            middle = (k + half) * mp.log(2)
            xs += [-float(middle * (1 + rng.gauss(0, 1) * mp.mpf(2) ** -e)) for e in (52, 50, 40, 20)]
    rows = [(x, mp.exp(mp.mpf(x))) for x in sorted(xs)]
    write_table("exponential", ("x", "exp"), rows)


def main():
    (HERE / "tables").mkdir(parents=True, exist_ok=True)
    write_coefficients()
    rng = random.Random(20160515)
    tables = (gamma_table, beta_table, logistic_table, normal_table, bessel_table, sum_table, elementary_table)
    for table in (*tables, exponential_table):
        table(rng)


if __name__ == "__main__":
    main()
