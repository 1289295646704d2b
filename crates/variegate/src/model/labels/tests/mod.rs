//! Tests of the family as a whole.

mod mixture;
