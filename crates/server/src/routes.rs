//! The table of routes: from it the router, the checks of the gate, the OpenAPI document and the table of
//! permissions in the documentation are made. A route that is not in it does not exist.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Permission, Scope};
use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::gate::{self, Permit};
use crate::problem::Problem;

/// What a request is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

impl Verb {
    /// As HTTP writes it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// Where a route does something, which decides what its caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Anybody may.
    Open,
    /// In the namespace of the session that `{session}` names.
    Session,
    /// In the namespace of the plan that `{plan}` names.
    Plan,
    /// In any namespace: what is shown is what the caller may see.
    Any,
    /// In a namespace that the body names; the handler asks its permit.
    Body,
    /// In no namespace.
    Everywhere,
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// What answers.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Anybody.
    Open(fn(Arc<App>, Request) -> Answer),
    /// Who has a permit.
    Permitted(fn(Arc<App>, Permit, Request) -> Answer),
    /// Who has a permit; keeps the keys of requests itself, together with what it does.
    WithKeys(fn(Arc<App>, Permit, Request) -> Answer),
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a type, for the table.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A parameter after the question mark, or a header.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) about: &'static str,
    pub(crate) schema: SchemaOf,
}

/// One route.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) scope: Scope,
    pub(crate) permission: Permission,
    pub(crate) place: Place,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: Option<SchemaOf>,
    /// The status of success and what comes with it.
    pub(crate) answer: (u16, Option<SchemaOf>),
    pub(crate) handler: Handler,
}

/// Puts a handler into the table.
macro_rules! permitted {
    ($handler:path) => {
        $crate::routes::Handler::Permitted(|app, permit, request| {
            Box::pin($handler(app, permit, request))
        })
    };
}
pub(crate) use permitted;

/// Puts a handler that keeps the keys of requests itself into the table.
macro_rules! permitted_with_keys {
    ($handler:path) => {
        $crate::routes::Handler::WithKeys(|app, permit, request| {
            Box::pin($handler(app, permit, request))
        })
    };
}
pub(crate) use permitted_with_keys;

/// Puts a handler that anybody may use into the table.
macro_rules! open {
    ($handler:path) => {
        $crate::routes::Handler::Open(|app, request| Box::pin($handler(app, request)))
    };
}
pub(crate) use open;

/// Every route.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    [crate::health::ROUTES, crate::a2a::ROUTES]
        .into_iter()
        .chain(crate::api::TABLES.iter().copied())
        .flatten()
}

/// The router of the table.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in all() {
        let app = Arc::clone(app);
        let handler = move |request: Request| async move {
            gate::enter(Arc::clone(&app), route, request).await
        };
        router = router.route(route.path, on(route.verb.filter(), handler));
    }
    router
        .fallback(|| async {
            Problem::new(Code::UnknownOperation, "there is no such path")
                .with_hint("`/api/v1/openapi.json` describes the paths that there are")
                .into_response()
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::UnknownOperation, "the path does not take this method")
                .with_status(StatusCode::METHOD_NOT_ALLOWED)
                .into_response()
        })
}
