//! Infinite latent features: rows are sums of a few features out of an unknown number.
//!
//! x = b + Σ_k z_k w_k + noise with z_k either 0 or 1. How often features are used follows the Indian buffet process or the stable-beta process,
//! whose uses follow a power law; features are Gaussian, or have directions that point away from one another. The book's chapter on
//! `features` has the mathematics.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings.rs`, `schema.rs` | settings and what they may be; the data as results depend on them |
//! | `state.rs`, `codes.rs` | what every row sees; which rows use what |
//! | `sampler/`, `angular/` | the samplers; directions that point away from one another |
//! | `start.rs` | the start that is grown on a few rows |
//! | `draws.rs` | what is kept |
//! | `generate.rs`, `check.rs` | the model as a distribution, and the checks |

mod angular;
mod check;
mod codes;
mod draws;
mod generate;
#[doc(hidden)] // for benchmarks
pub mod sampler;
mod schema;
mod settings;
mod start;
mod state;

pub(crate) use schema::Schema;
pub use settings::{DirectionKind, InterceptKind, MagnitudeKind, PriorKind, SamplerKind, Settings, StartKind};

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct FeaturesModel {
    settings: Settings,
}
