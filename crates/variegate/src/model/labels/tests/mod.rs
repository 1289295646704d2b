//! Promises of the family: checks pass, fits find what data were drawn from, and odd data have an answer or a sentence.

mod fits;
mod odd;
