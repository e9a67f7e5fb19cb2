//! Runs of actors through the program: every shape of graph, crashes, two terminals at once, ends.

mod kill;
mod run;
mod stop;
mod world;
