//! Runs of actors: every shape of graph, crashes, concurrent terminals, and how runs end.

mod arguments;
mod kill;
mod limits;
mod run;
mod secrets;
mod stop;
mod world;
