//! Sets of labels: a mixture with an unknown number of components over features and labels, and a linear classifier for each label.

mod gamma_factor;
mod kernel;
mod patterns;
mod sticks;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
