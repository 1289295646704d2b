//! Tests of the sequential sampler.

mod enumeration;
