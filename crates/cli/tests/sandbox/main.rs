//! Sandboxes: apply with concurrent edits of the user, with concurrent applies, on a full disk, and
//! with kills at every step.

mod apply;
mod branch;
mod by_products;
mod dependencies;
mod kill;
mod races;
mod steps;
mod user_edits;
mod world;
