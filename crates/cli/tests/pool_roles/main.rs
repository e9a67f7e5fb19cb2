//! The roles of pools with scripted models: the demonstration, and models that claim success, weaken tests or invent
//! evidence.

mod cheating;
mod demonstration;
mod workbench;
mod worker;
