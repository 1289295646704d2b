//! What a model says of the columns it was given, before it fits them.

use crate::data::{Dataset, Design, Scaling};

/// At most five names, then how many more.
pub(crate) fn preview(names: &[String]) -> String {
    let shown = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown} and {} more", names.len() - 5) } else { shown }
}

/// Warnings on columns left out as constant and, where columns are taken as they are, on scales that no prior suits.
pub(crate) fn column_warnings(data: &Dataset<'_>, dropped: &[usize], standardized: bool) -> Vec<String> {
    let names = |which: &[usize]| preview(&which.iter().map(|&j| data.column_name(j)).collect::<Vec<_>>());
    let mut warnings = Vec::new();
    if !dropped.is_empty() {
        warnings.push(format!("left out {} constant column(s): {}", dropped.len(), names(dropped)));
    }
    if !standardized {
        let (measured, _) = Design::fit(&data.x, data.weights.as_deref(), Scaling::default());
        let odd = |sd: f64| !(1e-3..=1e3).contains(&sd);
        let odd: Vec<usize> = measured.kept.iter().zip(&measured.scale).filter(|(_, sd)| odd(**sd)).map(|(&j, _)| j as usize).collect();
        if !odd.is_empty() {
            warnings.push(format!("a standard deviation below 0.001 or above 1000 without `standardize`: {}", names(&odd)));
        }
    }
    warnings
}
