//! The HTTP API below `/api/v1`: one file for each kind of object, with its routes at the top.

mod append;
mod caller;
mod event_sender;
mod events;
pub(crate) mod idempotency;
mod messages;
mod openapi;
pub(crate) mod operations;
mod paging;
mod plans;
mod request;
mod sessions;
mod turns;
mod types;

use crate::routes::Route;

pub(crate) use append::Appender;

pub(crate) static TABLES: &[&[Route]] = &[
    openapi::ROUTES,
    events::ROUTES,
    sessions::ROUTES,
    messages::ROUTES,
    turns::ROUTES,
    plans::ROUTES,
    operations::ROUTES,
    caller::ROUTES,
];
