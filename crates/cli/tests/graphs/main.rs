//! Runs of actors through the program: every shape of graph, crashes, two terminals at once, ends.

mod arguments;
mod kill;
mod limits;
mod run;
mod secrets;
mod stop;
mod world;
