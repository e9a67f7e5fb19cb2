//! Sandboxes through the program: what applying does beside the user's own edits, at once with other
//! applies, on a full disk, and when it is killed.

mod apply;
mod beside;
mod by_products;
mod kill;
mod races;
mod steps;
mod world;
