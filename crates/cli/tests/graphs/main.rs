//! Runs of actors: every shape of graph, crashes, use from two terminals at once, and the ways in which a run ends.

mod arguments;
mod kill;
mod limits;
mod run;
mod secrets;
mod stop;
mod world;
