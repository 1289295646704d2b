//! Tables of text that fit the width of a terminal.

/// Columns that a table may take on a terminal, unless `COLUMNS` says otherwise.
const WIDTH: usize = 80;
/// A table: names on the left, the rest aligned to the right (or to the left for prose).
#[derive(Debug, Clone, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    prose: bool,
}

impl Table {
    /// A table with these headings.
    pub fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Aligns every column to the left.
    pub fn prose(mut self) -> Self {
        self.prose = true;
        self
    }

    /// Adds a row; missing cells are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.headings.len(), String::new());
        self.rows.push(cells);
    }

    /// The text, within `width` columns. Names tell rows apart, so they stay whole as long as one column fits beside them; columns that do
    /// not fit go into further bands below.
    pub fn render(&self, width: Option<usize>) -> String {
        let columns = self.headings.len();
        let mut widths: Vec<usize> = (0..columns).map(|j| self.lines().map(|cells| length(&cells[j])).max().unwrap_or(0)).collect();
        let width = width.unwrap_or(usize::MAX);
        if let [names, others @ ..] = &mut widths[..] {
            // prose may be cut at the end of its line
            let widest = others.iter().max().map_or(0, |w| if self.prose { 2 + w.min(&(width / 2)) } else { 2 + w });
            *names = (*names).min(width.saturating_sub(widest));
        }
        let mut out = String::new();
        for band in bands(&widths, width) {
            if !out.is_empty() {
                out.push('\n');
            }
            for cells in self.lines() {
                let mut line = fit(&cells[0], widths[0], false);
                for &j in &band {
                    line.push_str("  ");
                    // prose ends a line and may run on to its end
                    let room = if self.prose { widths[j].min(width.saturating_sub(length(&line))) } else { widths[j] };
                    line.push_str(&fit(&cells[j], room, !self.prose));
                }
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        out
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.headings).chain(&self.rows)
    }
}

/// Columns after the first, dealt into bands that fit beside it.
fn bands(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let mut bands = vec![Vec::new()];
    let mut used = widths.first().copied().unwrap_or(0);
    for (j, w) in widths.iter().enumerate().skip(1) {
        if used.saturating_add(2 + w) > width && bands.last().is_some_and(|b: &Vec<usize>| !b.is_empty()) {
            bands.push(Vec::new());
            used = widths[0];
        }
        used = used.saturating_add(2 + w);
        if let Some(band) = bands.last_mut() {
            band.push(j);
        }
    }
    bands
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Cuts or pads to exactly `width` characters.
fn fit(text: &str, width: usize, right: bool) -> String {
    let n = length(text);
    if n > width {
        let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
        cut.push('…');
        return cut;
    }
    let pad = " ".repeat(width - n);
    if right { pad + text } else { text.to_string() + &pad }
}

/// The width that tables on standard output should keep to; none when it is not a terminal, so that nothing is cut.
pub fn stdout_width() -> Option<usize> {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal().then(terminal_width)
}

fn terminal_width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).filter(|c| *c >= 40).unwrap_or(WIDTH)
}

/// A number with four significant digits, and no more zeros than it needs.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        return "-".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-4..1e7).contains(&size) {
        format!("{value:.2e}")
    } else {
        let before = size.log10().floor() as i32 + 1;
        format!("{value:.*}", (4 - before).max(0) as usize)
    }
}

/// Breaks prose into lines of at most `width` characters, the later ones indented.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        if used > 0 && used + 1 + length(word) > width {
            out.push('\n');
            out.push_str(indent);
            used = length(indent);
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length(word);
    }
    out
}

/// A count with its noun: `1 row`, `2 rows`, `1,000,000 rows`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    format!("{grouped} {}", if n == 1 { one } else { many })
}

/// Seconds as a person says them.
pub fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, columns: usize) -> Table {
        let mut t = Table::new((0..=columns).map(|j| format!("heading{j}")));
        t.row(std::iter::once(name.to_string()).chain((0..columns).map(|j| format!("{j}.5"))));
        t
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        for columns in [1, 3, 7, 20] {
            for name in ["a", "a name that is rather long, as names of columns in real files often are, or even longer"] {
                for width in [40, 80, 100] {
                    let text = sample(name, columns).render(Some(width));
                    assert!(text.lines().all(|l| length(l) <= width), "{text}");
                    assert_eq!(text.matches(".5").count(), columns, "nothing may get lost: {text}");
                }
                assert!(sample(name, columns).render(None).contains(name), "nothing is cut in a pipe");
            }
        }
    }

    /// Names and the words in them stay whole at 80 columns, whatever number of columns goes below.
    #[test]
    fn rows_can_be_told_apart() {
        let mut t = Table::new(std::iter::once(String::new()).chain((1..=8).map(|j| format!("share of s{j}"))));
        let name = |k: usize| format!("factor{k} (network, learning, training, model)");
        for k in 1..=19 {
            t.row(std::iter::once(name(k)).chain((0..8).map(|j| format!("0.{j}{k}"))));
        }
        let text = t.render(Some(80));
        for k in 1..=19 {
            assert!(text.lines().any(|l| l.starts_with(&name(k))), "{text}");
        }
        for j in 1..=8 {
            assert!(text.contains(&format!("share of s{j}")), "{text}");
        }
        assert!(text.lines().all(|l| length(l) <= 80), "{text}");
    }

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.0, 1.0, -12.345678, 0.00123456, 123456.7, 1e-9, 1e12, f64::NAN, f64::INFINITY, 1.0049].map(number);
        assert_eq!(shown, ["0", "1.000", "-12.35", "0.001235", "123457", "1.00e-9", "1.00e12", "-", "inf", "1.005"]);
    }

    #[test]
    fn prose_and_counts() {
        assert_eq!(wrap("one two three", 7, "  "), "one two\n  three");
        assert_eq!(count(1, "row", "rows"), "1 row");
        assert_eq!(count(1234567, "row", "rows"), "1,234,567 rows");
    }
}
