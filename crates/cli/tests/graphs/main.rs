//! Runs of actors: every shape of graph, crashes, concurrent terminals, and ends of runs.

mod arguments;
mod kill;
mod limits;
mod run;
mod secrets;
mod stop;
mod world;
