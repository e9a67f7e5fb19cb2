//! Plans through the program: crashes, many at once, two terminals, and things that break behind them.

mod by_products;
mod defects;
mod faults;
mod full_disk;
mod kill;
mod person;
mod policy;
mod providers;
mod reasoning;
mod stream;
mod terminals;
mod together;
mod world;
