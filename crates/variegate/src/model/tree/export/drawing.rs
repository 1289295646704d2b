//! The tree as a picture: root on the left, rows (or, where there are many, leaves) on the right, one under the other with a line of text
//! each, so that labels never overlap. A dot at a node is the fuller the better the draws support it; branches below the root's children
//! have a colour each.

use super::SummaryTree;
use super::text::short;

/// Height of a line, and size of its letters.
const LINE: f64 = 15.0;
const LETTERS: f64 = 11.0;
/// Width of a letter of average text, in sizes.
const LETTER: f64 = 0.58;
/// Width of a level.
const STEP: f64 = 110.0;
const EDGE: f64 = 24.0;
const HEADER: f64 = 34.0;
/// Beyond so many rows the leaves are the tips.
const MOST_ROWS: usize = 400;
/// Longest name that is shown.
const MOST_LETTERS: usize = 40;
/// Colours that differ in lightness too, for readers who do not see all hues.
const COLOURS: [&str; 8] = ["#1b6ca8", "#c8553d", "#3f7d20", "#7b3f98", "#a36a00", "#0b7a75", "#b0306a", "#555555"];

fn escaped(text: &str) -> String {
    let short: String = match text.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    };
    let plain: String = short.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Something at the right end.
struct Tip {
    node: usize,
    label: String,
}

impl SummaryTree {
    /// The picture as SVG text.
    pub(crate) fn svg(&self) -> String {
        let children = self.children();
        let by_rows = self.names.len() <= MOST_ROWS;
        let mut tips: Vec<Tip> = Vec::new();
        let mut y = vec![0.0; self.nodes.len()];
        // depth first, so that what belongs together lies together
        let mut open = vec![(0, false)];
        let mut ends = vec![(f64::INFINITY, f64::NEG_INFINITY); self.nodes.len()];
        while let Some((id, done)) = open.pop() {
            let node = &self.nodes[id];
            if children[id].is_empty() {
                let first = tips.len();
                if by_rows {
                    tips.extend(node.rows.iter().map(|&i| Tip { node: id, label: escaped(&self.names[i]) }));
                } else {
                    let n = node.rows.len();
                    tips.push(Tip { node: id, label: format!("n{id}: {n} {}", if n == 1 { "row" } else { "rows" }) });
                }
                ends[id] = (line(first), line(tips.len() - 1));
            } else if done {
                for &c in &children[id] {
                    ends[id] = (ends[id].0.min(y[c]), ends[id].1.max(y[c]));
                }
            } else {
                open.push((id, true));
                open.extend(children[id].iter().rev().map(|&c| (c, false)));
                continue;
            }
            y[id] = 0.5 * (ends[id].0 + ends[id].1);
        }
        let depth = self.levels + 1;
        let x = |level: usize| EDGE + level as f64 * STEP;
        let right = x(if by_rows { depth } else { self.levels });
        let longest = tips.iter().map(|t| t.label.chars().count()).max().unwrap_or(0) as f64;
        let width = right + 10.0 + longest * LETTERS * LETTER + EDGE;
        let height = HEADER + tips.len() as f64 * LINE + EDGE;
        let colour = self.colours();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{LETTERS}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        for level in 1..=self.levels {
            out += &format!("<text x=\"{:.1}\" y=\"18\" fill=\"#666666\" text-anchor=\"middle\">level {level}</text>\n", x(level));
        }
        let stroke = |x0: f64, y0: f64, x1: f64, y1: f64, colour: &str| {
            format!("<path d=\"M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}\" stroke=\"{colour}\" stroke-width=\"1.4\" fill=\"none\"/>\n")
        };
        for node in &self.nodes {
            let (own, at) = (colour[node.id], x(node.level));
            if let Some(p) = node.parent {
                out += &stroke(x(self.nodes[p].level), y[node.id], at, y[node.id], own);
            }
            let tips_here = children[node.id].is_empty();
            if (ends[node.id].1 > ends[node.id].0) && (!tips_here || by_rows) {
                out += &stroke(at, ends[node.id].0, at, ends[node.id].1, own);
            }
        }
        for (i, tip) in tips.iter().enumerate() {
            if by_rows || self.nodes[tip.node].level < self.levels {
                out += &stroke(x(self.nodes[tip.node].level), line(i), right, line(i), colour[tip.node]);
            }
            out += &format!("<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#111111\">{}</text>\n", right + 8.0, line(i) + 0.35 * LETTERS, tip.label);
        }
        for node in self.nodes.iter().skip(1) {
            let Some(c) = &node.credibility else { continue };
            let (cx, cy) = (x(node.level), y[node.id]);
            let (cohesion, separation, support) = (short(c.cohesion), short(c.separation), short(c.support));
            let full = if c.support.is_finite() { c.support.clamp(0.0, 1.0) } else { 0.0 };
            // white below, so that a pale dot hides the lines behind it
            out += &format!(
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"#ffffff\"/>\n\
                 <circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{0}\" fill-opacity=\"{full:.2}\" stroke=\"{0}\">\
                 <title>n{1}: {2} rows, cohesion {cohesion}, separation {separation}, support {support}</title></circle>\n",
                colour[node.id],
                node.id,
                node.rows.len()
            );
            // above the branch that leads to the node, where nothing else is
            if c.support.is_finite() {
                out += &format!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#444444\" font-size=\"9\" text-anchor=\"end\">{support}</text>\n",
                    cx - 7.0,
                    cy - 3.0
                );
            }
        }
        out + "</svg>\n"
    }

    /// One colour a child of the root; all below it have the same.
    fn colours(&self) -> Vec<&'static str> {
        let mut found: Vec<&'static str> = Vec::with_capacity(self.nodes.len());
        let mut next = 0;
        for node in &self.nodes {
            found.push(match node.parent {
                None => "#333333",
                Some(0) => {
                    next += 1;
                    COLOURS[(next - 1) % COLOURS.len()]
                }
                Some(p) => found[p],
            });
        }
        found
    }
}

/// Middle of a line.
fn line(i: usize) -> f64 {
    HEADER + (i as f64 + 0.5) * LINE
}
