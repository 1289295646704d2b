//! Tests of the kernels: known values, ratios of marginals, integrals, draws, learned numbers, the door.
