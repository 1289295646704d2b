//! Sums that can be taken away again, or weighted: S + t·T, field by field.

use crate::run::Sum;

/// Sums that form a vector space; an empty list of numbers is zero.
pub(crate) trait AddTimes {
    /// self += times · other.
    fn add_times(&mut self, times: f64, other: &Self);
}

impl AddTimes for Sum<f64> {
    fn add_times(&mut self, times: f64, other: &Self) {
        self.0 += times * other.0;
    }
}

impl AddTimes for Sum<Vec<f64>> {
    fn add_times(&mut self, times: f64, other: &Self) {
        if self.0.is_empty() {
            self.0 = other.0.iter().map(|o| times * o).collect();
        } else if !other.0.is_empty() {
            debug_assert_eq!(self.0.len(), other.0.len());
            self.0.iter_mut().zip(&other.0).for_each(|(s, o)| *s += times * o);
        }
    }
}

/// Implements [`AddTimes`] for a struct of such fields.
macro_rules! add_times_fields {
    ($type:ty, $($field:ident),+ $(,)?) => {
        impl AddTimes for $type {
            fn add_times(&mut self, times: f64, other: &Self) {
                $( self.$field.add_times(times, &other.$field); )+
            }
        }
    };
}

add_times_fields!(super::logit::Stats, gram, cross, mass, response, pattern_response, offset);
add_times_fields!(super::logit::shared::Stats, cross, mass, response, pattern_response, offset);
add_times_fields!(super::and::Stats, weights, present, absent, entropy);
add_times_fields!(super::patterns::Stats, present, absent, coefficients);
add_times_fields!(super::cut::Stats, patterns, weights);
add_times_fields!(super::label_part::LabelStats, logit, shared, and, cut);
add_times_fields!(super::mixture::Sums, counts, entropy, entropies, kernel, coefficients, value, labels, present, known);
