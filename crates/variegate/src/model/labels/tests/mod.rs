//! Promises of the family: oracles, checks, fits of data drawn from the model, and odd data.

mod by_rows;
mod fits;
mod gibbs;
mod memoized;
mod mixture;
mod moves;
mod odd;
mod row_space;
mod shared;
mod small;
