//! The A2A agent: other agents and programs send messages, which become tasks: turns of a conversation, or plans.
//!
//! Two bindings (`json_rpc.rs`, `http_json.rs`) read requests and write responses; the methods (`handlers.rs`, `send.rs`,
//! `push.rs`) know neither. The protocol itself is the crate `cleveragents-a2a`; tasks are kept by the `TaskService` of
//! `cleveragents-application`, so that they survive connections and servers.

mod binding;
mod card;
mod conformance;
mod error;
mod extension;
mod handlers;
mod http_json;
mod json_rpc;
mod plan;
mod push;
mod recover;
mod registry;
mod run;
mod send;
mod stream;

use cleveragents_domain::identity::{Permission, Scope};

use crate::routes::{Handler, Place, Route, Verb, open, permitted};

pub(crate) use recover::{begin, caller, end};
pub(crate) use registry::TaskRegistry;
pub use send::ECHO;

const fn route(
    verb: Verb,
    path: &'static str,
    permission: Permission,
    place: Place,
    summary: &'static str,
    handler: Handler,
) -> Route {
    Route {
        verb,
        path,
        scope: Scope::Tasks,
        permission,
        place,
        summary,
        parameters: &[],
        body: None,
        answer: (200, None),
        handler,
    }
}

/// A route of the HTTP binding. Where a task belongs is known to the handler, which asks its permit.
macro_rules! rest {
    ($verb:ident, $path:literal, $permission:ident, $summary:literal) => {
        route(
            Verb::$verb,
            concat!("/a2a/v1", $path),
            Permission::$permission,
            Place::Body,
            $summary,
            permitted!(http_json::answer),
        )
    };
}

/// The routes. The endpoint of JSON-RPC asks for what each method needs.
pub(crate) static ROUTES: &[Route] = &[
    route(
        Verb::Get,
        "/.well-known/agent-card.json",
        Permission::Read,
        Place::Open,
        "The agent card of A2A 1.0",
        open!(card::serve),
    ),
    route(
        Verb::Get,
        "/.well-known/agent.json",
        Permission::Read,
        Place::Open,
        "The agent card of A2A 0.3",
        open!(card::serve_v0_3),
    ),
    route(
        Verb::Get,
        "/a2a",
        Permission::Read,
        Place::Open,
        "Says how the endpoint is used",
        open!(json_rpc::explain),
    ),
    route(
        Verb::Post,
        "/a2a",
        Permission::Read,
        Place::Body,
        "A2A over JSON-RPC, and the operations as methods",
        permitted!(json_rpc::answer),
    ),
    route(
        Verb::Get,
        "/a2a/",
        Permission::Read,
        Place::Open,
        "Says how the endpoint is used",
        open!(json_rpc::explain),
    ),
    route(
        Verb::Post,
        "/a2a/",
        Permission::Read,
        Place::Body,
        "A2A over JSON-RPC, and the operations as methods",
        permitted!(json_rpc::answer),
    ),
    rest!(
        Post,
        "/message:send",
        Write,
        "Sends a message and waits for what comes of it"
    ),
    rest!(
        Post,
        "/message:stream",
        Write,
        "Sends a message and streams what comes of it"
    ),
    rest!(
        Get,
        "/tasks",
        Read,
        "The tasks that the caller may see, the last changed first"
    ),
    rest!(
        Get,
        "/tasks/{task}",
        Read,
        "A task; with `:subscribe` its updates"
    ),
    rest!(
        Post,
        "/tasks/{task}",
        Read,
        "`:cancel` a task, or `:subscribe` to it"
    ),
    rest!(
        Get,
        "/tasks/{task}/pushNotificationConfigs",
        Write,
        "Where a task is pushed to"
    ),
    rest!(
        Post,
        "/tasks/{task}/pushNotificationConfigs",
        Write,
        "Pushes a task somewhere"
    ),
    rest!(
        Get,
        "/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "One place where a task is pushed to"
    ),
    rest!(
        Delete,
        "/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "Pushes a task there no more"
    ),
    rest!(
        Get,
        "/extendedAgentCard",
        Read,
        "The agent card for the caller"
    ),
    rest!(
        Post,
        "/{tenant}/message:send",
        Write,
        "Sends a message in a namespace"
    ),
    rest!(
        Post,
        "/{tenant}/message:stream",
        Write,
        "Sends a message in a namespace and streams"
    ),
    rest!(Get, "/{tenant}/tasks", Read, "The tasks of a namespace"),
    rest!(Get, "/{tenant}/tasks/{task}", Read, "A task of a namespace"),
    rest!(
        Post,
        "/{tenant}/tasks/{task}",
        Read,
        "Cancels a task of a namespace, or subscribes"
    ),
    rest!(
        Get,
        "/{tenant}/tasks/{task}/pushNotificationConfigs",
        Write,
        "Where a task of a namespace is pushed to"
    ),
    rest!(
        Post,
        "/{tenant}/tasks/{task}/pushNotificationConfigs",
        Write,
        "Pushes a task of a namespace somewhere"
    ),
    rest!(
        Get,
        "/{tenant}/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "One place where a task of a namespace is pushed to"
    ),
    rest!(
        Delete,
        "/{tenant}/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "Pushes a task of a namespace there no more"
    ),
    rest!(
        Get,
        "/{tenant}/extendedAgentCard",
        Read,
        "The agent card for the caller"
    ),
];
