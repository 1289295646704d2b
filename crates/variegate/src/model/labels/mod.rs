//! Multi-label classification.

mod and;
mod bound;
mod classifier;
mod expected_sigmoid;
mod gamma_factor;
mod logit;
mod normal_factor;

#[cfg(test)]
mod testing;
