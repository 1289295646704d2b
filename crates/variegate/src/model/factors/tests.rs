//! The family as users meet it.
