//! What holds for every program and sampler of every family.

mod cases;
mod engines;
mod pinned_draws;
