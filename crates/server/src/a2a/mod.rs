//! The A2A agent: other agents and programs send messages, which become tasks: turns of a conversation, or plans.
//!
//! Two bindings (`json_rpc.rs`, `http_json.rs`) read requests and write responses; the methods (`handlers.rs`,
//! `send.rs`, `push.rs`) are independent of them. The crate `cleveragents-a2a` defines the protocol; the `TaskService`
//! of `cleveragents-application` stores tasks, so that they survive connections and servers.

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
mod turn_queue;

use cleveragents_domain::identity::{Permission, Scope};

use crate::routes::{Handler, Route, RouteScope, Verb, open, permitted};

pub(crate) use recover::{begin, caller, end};
pub(crate) use registry::TaskRegistry;
pub use send::ECHO;

const fn route(
    verb: Verb,
    path: &'static str,
    permission: Permission,
    place: RouteScope,
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

/// A route of the HTTP binding. Its handler checks the permission in the namespace of the task.
macro_rules! rest {
    ($verb:ident, $path:literal, $permission:ident, $summary:literal) => {
        route(
            Verb::$verb,
            concat!("/a2a/v1", $path),
            Permission::$permission,
            RouteScope::Body,
            $summary,
            permitted!(http_json::answer),
        )
    };
}

/// The routes. The handler of the JSON-RPC endpoint checks the permission of each method.
pub(crate) static ROUTES: &[Route] = &[
    route(
        Verb::Get,
        "/.well-known/agent-card.json",
        Permission::Read,
        RouteScope::Open,
        "The agent card of A2A 1.0",
        open!(card::serve),
    ),
    route(
        Verb::Get,
        "/.well-known/agent.json",
        Permission::Read,
        RouteScope::Open,
        "The agent card of A2A 0.3",
        open!(card::serve_v0_3),
    ),
    route(
        Verb::Get,
        "/a2a",
        Permission::Read,
        RouteScope::Open,
        "Explain how to use the endpoint",
        open!(json_rpc::explain),
    ),
    route(
        Verb::Post,
        "/a2a",
        Permission::Read,
        RouteScope::Body,
        "A2A over JSON-RPC, and the operations as methods",
        permitted!(json_rpc::answer),
    ),
    route(
        Verb::Get,
        "/a2a/",
        Permission::Read,
        RouteScope::Open,
        "Explain how to use the endpoint",
        open!(json_rpc::explain),
    ),
    route(
        Verb::Post,
        "/a2a/",
        Permission::Read,
        RouteScope::Body,
        "A2A over JSON-RPC, and the operations as methods",
        permitted!(json_rpc::answer),
    ),
    rest!(
        Post,
        "/message:send",
        Write,
        "Send a message and wait for the result"
    ),
    rest!(
        Post,
        "/message:stream",
        Write,
        "Send a message and stream the updates of its task"
    ),
    rest!(
        Get,
        "/tasks",
        Read,
        "List the tasks that the caller may see, last changed first"
    ),
    rest!(
        Get,
        "/tasks/{task}",
        Read,
        "Show a task; with `:subscribe`, stream its updates"
    ),
    rest!(
        Post,
        "/tasks/{task}",
        Read,
        "Cancel a task (`:cancel`), or stream its updates (`:subscribe`)"
    ),
    rest!(
        Get,
        "/tasks/{task}/pushNotificationConfigs",
        Write,
        "List the push notification configurations of a task"
    ),
    rest!(
        Post,
        "/tasks/{task}/pushNotificationConfigs",
        Write,
        "Create a push notification configuration for a task"
    ),
    rest!(
        Get,
        "/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "Show a push notification configuration of a task"
    ),
    rest!(
        Delete,
        "/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "Delete a push notification configuration of a task"
    ),
    rest!(
        Get,
        "/extendedAgentCard",
        Read,
        "Show the extended agent card for the caller"
    ),
    rest!(
        Post,
        "/{tenant}/message:send",
        Write,
        "Send a message in a namespace"
    ),
    rest!(
        Post,
        "/{tenant}/message:stream",
        Write,
        "Send a message in a namespace and stream the updates of its task"
    ),
    rest!(
        Get,
        "/{tenant}/tasks",
        Read,
        "List the tasks of a namespace"
    ),
    rest!(
        Get,
        "/{tenant}/tasks/{task}",
        Read,
        "Show a task of a namespace"
    ),
    rest!(
        Post,
        "/{tenant}/tasks/{task}",
        Read,
        "Cancel a task of a namespace, or stream its updates"
    ),
    rest!(
        Get,
        "/{tenant}/tasks/{task}/pushNotificationConfigs",
        Write,
        "List the push notification configurations of a task of a namespace"
    ),
    rest!(
        Post,
        "/{tenant}/tasks/{task}/pushNotificationConfigs",
        Write,
        "Create a push notification configuration for a task of a namespace"
    ),
    rest!(
        Get,
        "/{tenant}/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "Show a push notification configuration of a task of a namespace"
    ),
    rest!(
        Delete,
        "/{tenant}/tasks/{task}/pushNotificationConfigs/{config}",
        Write,
        "Delete a push notification configuration of a task of a namespace"
    ),
    rest!(
        Get,
        "/{tenant}/extendedAgentCard",
        Read,
        "Show the extended agent card for the caller"
    ),
];
