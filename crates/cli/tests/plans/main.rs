//! Plans: crashes, concurrency, two terminals, and broken dependencies.

mod by_products;
mod children;
mod concurrency;
mod faults;
mod full_disk;
mod interaction;
mod kill;
mod policy;
mod providers;
mod reasoning;
mod reported_defects;
mod stream;
mod terminals;
mod world;
