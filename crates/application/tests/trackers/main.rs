//! Trackers: listings are complete or an error, and writes have their effect once, whatever is lost on the way.

mod forges;
mod markdown;
mod operations;
mod outbox;
mod support;
