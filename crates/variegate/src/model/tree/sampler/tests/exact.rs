//! Every kernel by itself: the whole state drawn exactly, one step, and no mean may change.
