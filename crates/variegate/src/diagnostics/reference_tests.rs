//! Agreement with ArviZ: `reference.json` holds its values for draws that are made again here.
//! `tools/diagnostics_reference.py` writes that file; the two generators must stay the same, operation by operation.

use serde_json::Value;

use super::*;

pub(super) struct Generator {
    pub(super) state: u64,
}

impl Generator {
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 11) as f64 * 2f64.powi(-53)
    }

    pub(super) fn bell(&mut self) -> f64 {
        let mut total = 0.0;
        for _ in 0..12 {
            total += self.uniform();
        }
        total - 6.0
    }

    fn next(&mut self, kind: &str, chain: usize, i: usize, before: f64) -> f64 {
        let c = chain as f64;
        match kind {
            "iid" => self.bell(),
            "sticky" => 0.9 * before + self.bell(),
            "swinging" => -0.7 * before + self.bell(),
            "repeats" => {
                let step = self.bell();
                if self.uniform() < 0.4 { before + step } else { before }
            }
            "ties" => (4.0 * self.uniform()).floor(),
            "rare" => f64::from(self.uniform() < 0.03),
            "heavy" => {
                let numerator = self.bell();
                numerator / (self.uniform() + 0.001)
            }
            "shifted" => self.bell() + 0.3 * c,
            "scaled" => self.bell() * (1.0 + 0.5 * c),
            "drifting" => self.bell() + 0.03 * i as f64,
            "offset" => 1_000_000.0 + self.bell(),
            "tiny" => 1e-20 * self.bell(),
            "alternating" => [1.0, -1.0][i % 2],
            "constant" => 3.5,
            "stuck" => c,
            "missing" if chain == 0 && i == 2 => f64::NAN,
            "infinite" if chain == 0 && i == 2 => f64::INFINITY,
            "missing" | "infinite" => self.bell(),
            other => panic!("unknown kind {other}"),
        }
    }
}

fn draws(case: &Value) -> Vec<Vec<f64>> {
    let count = |key: &str| case[key].as_u64().unwrap() as usize;
    let mut generator = Generator { state: case["seed"].as_u64().unwrap() };
    (0..count("chains"))
        .map(|chain| {
            let mut value = 0.0;
            (0..count("draws"))
                .map(|i| {
                    value = generator.next(case["kind"].as_str().unwrap(), chain, i, value);
                    value
                })
                .collect()
        })
        .collect()
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

/// Chains that each stand still: zero against zero, up to rounding. What is left of it may be any huge number.
const HUGE: f64 = 1e6;

#[test]
fn agrees_with_arviz() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("reference.json")).unwrap();
    assert!(cases.len() > 80);
    let mut worst = 0.0f64;
    for case in &cases {
        let x = draws(case);
        let summary = summarise(&x);
        let got = [
            ("r_hat", summary.r_hat),
            ("ess_bulk", summary.ess_bulk),
            ("ess_tail", summary.ess_tail),
            ("ess_mean", ess_mean(&x)),
            ("ess_sd", ess_sd(&x)),
            ("ess_q30", ess_quantile(&x, 0.3)),
            ("mcse_mean", summary.mcse_mean),
            ("mcse_sd", summary.mcse_sd),
            ("mcse_q05", mcse_quantile(&x, 0.05)),
            ("mcse_q50", mcse_quantile(&x, 0.5)),
            ("mcse_q90", mcse_quantile(&x, 0.9)),
            ("mean", summary.mean),
            ("sd", summary.sd),
            ("bfmi", e_bfmi(&x)[0]),
        ];
        for (name, got) in got {
            let expected = number(&case[name]);
            let same = (got.is_nan() && expected.is_nan()) || got == expected || (got > HUGE && expected > HUGE && name == "r_hat");
            let error = if same { 0.0 } else { (got - expected).abs() / expected.abs().max(1e-3) };
            let label = format!("{} {}x{} {name}", case["kind"], case["chains"], case["draws"]);
            assert!(error < 1e-9, "{label}: {got} against {expected}");
            worst = worst.max(error);
        }
    }
    println!("largest relative difference {worst:.1e}");
}
