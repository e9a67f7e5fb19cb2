//! Tools of the user's.
