//! The table of routes: source of the router, the permission checks, the OpenAPI document and the permissions table
//! in the documentation. A route that is not in the table does not exist.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Permission, Scope};
use http::header::ALLOW;
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::authorize::{self, MatchedRoute, Parameters, Permit};
use crate::log::{self, RequestSummary};
use crate::problem::Problem;

/// The HTTP method of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

impl Verb {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// True if the route accepts the method. A `GET` route also accepts `HEAD`.
    fn accepts(self, method: &Method) -> bool {
        method.as_str() == self.as_str() || (self == Self::Get && method == Method::HEAD)
    }
}

/// Scope of a route: the namespaces in which its caller needs the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteScope {
    /// No token is needed.
    Open,
    /// In the namespace of the session that `{session}` names.
    Session,
    /// In the namespace of the plan that `{plan}` names.
    Plan,
    /// In any namespace: the response contains only data that the caller may see.
    Any,
    /// In a namespace that the body names; the handler checks it with its permit.
    Body,
    /// In every namespace (`*`).
    Everywhere,
}

pub(crate) type RouteResponse = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// The function that handles a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Needs no permit.
    Open(fn(Arc<App>, Request) -> RouteResponse),
    /// Needs a permit.
    Permitted(fn(Arc<App>, Permit, Request) -> RouteResponse),
    /// Needs a permit, and stores idempotency keys itself, in the same unit of work as its effect.
    WithKeys(fn(Arc<App>, Permit, Request) -> RouteResponse),
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a type.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A query parameter or header.
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
    pub(crate) place: RouteScope,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: Option<SchemaOf>,
    /// The status of success, and the schema of its body.
    pub(crate) answer: (u16, Option<SchemaOf>),
    pub(crate) handler: Handler,
}

/// A handler that needs a permit.
macro_rules! permitted {
    ($handler:path) => {
        $crate::routes::Handler::Permitted(|app, permit, request| {
            Box::pin($handler(app, permit, request))
        })
    };
}
pub(crate) use permitted;

/// A handler that needs a permit and stores idempotency keys itself.
macro_rules! permitted_with_keys {
    ($handler:path) => {
        $crate::routes::Handler::WithKeys(|app, permit, request| {
            Box::pin($handler(app, permit, request))
        })
    };
}
pub(crate) use permitted_with_keys;

/// A handler that needs no token.
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

/// Finds the route of a request.
pub(crate) struct Router(matchit::Router<Vec<&'static Route>>);

impl Router {
    /// The router of the table. Fails if two paths conflict.
    pub(crate) fn new() -> Result<Self, matchit::InsertError> {
        let mut paths: BTreeMap<&str, Vec<&'static Route>> = BTreeMap::new();
        for route in all() {
            paths.entry(route.path).or_default().push(route);
        }
        let mut router = matchit::Router::new();
        for (path, routes) in paths {
            router.insert(path, routes)?;
        }
        Ok(Self(router))
    }

    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        app: &Arc<App>,
        peer: SocketAddr,
        request: Request,
    ) -> Response {
        log::answered(RequestSummary::new(&request, peer), async {
            match self.find(request.method(), request.uri().path()) {
                Ok((route, parameters)) => {
                    let matched = MatchedRoute {
                        route,
                        parameters,
                        peer,
                    };
                    authorize::handle_request(app, matched, request).await
                }
                Err(refusal) => *refusal,
            }
        })
        .await
    }

    fn find(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<(&'static Route, Parameters), Box<Response>> {
        let path_match = self.0.at(path).map_err(|_| {
            Problem::new(Code::UnknownOperation, "the path does not exist")
                .with_hint("`/api/v1/openapi.json` lists all paths")
                .into_response()
        })?;
        let route = path_match
            .value
            .iter()
            .find(|route| route.verb.accepts(method));
        let route = *route.ok_or_else(|| method_not_allowed(path_match.value))?;
        let mut parameters = Vec::with_capacity(path_match.params.len());
        for (name, value) in path_match.params.iter() {
            let value = percent_decode_str(value).decode_utf8().map_err(|_| {
                Problem::new(Code::MalformedRequest, "the path is not valid UTF-8").into_response()
            })?;
            parameters.push((name.to_owned(), value.into_owned()));
        }
        Ok((route, parameters))
    }
}

/// The response to a method that the path does not support.
fn method_not_allowed(routes: &[&Route]) -> Response {
    let mut response = Problem::new(
        Code::UnknownOperation,
        "the path does not support this method",
    )
    .with_status(StatusCode::METHOD_NOT_ALLOWED)
    .into_response();
    let allowed: Vec<&str> = routes.iter().map(|route| route.verb.as_str()).collect();
    let mut allowed = allowed.join(",");
    if routes.iter().any(|route| route.verb == Verb::Get) {
        allowed.push_str(",HEAD");
    }
    if let Ok(allowed) = allowed.parse() {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::Router;
    use http::header::ALLOW;
    use http::{Method, StatusCode};

    #[test]
    fn every_path_is_found_with_its_parts() {
        let router = Router::new().expect("a table without doubles");
        let path_match = |method: &Method, path: &str| {
            let (route, parameters) = router
                .find(method, path)
                .map_err(|refusal| refusal.status())?;
            let values: Vec<String> = parameters.into_iter().map(|(_, value)| value).collect();
            Ok::<_, StatusCode>((route.path, values))
        };
        let session = "/api/v1/sessions/{session}";
        assert_eq!(
            path_match(&Method::GET, "/api/v1/sessions/a%20b"),
            Ok((session, vec!["a b".to_owned()]))
        );
        assert_eq!(
            path_match(&Method::HEAD, "/healthz"),
            Ok(("/healthz", Vec::new()))
        );
        assert_eq!(
            path_match(&Method::GET, "/api/v1/sessions/%ff"),
            Err(StatusCode::BAD_REQUEST)
        );
        for path in ["/", "/healthz/", "/api/v1/sessions/a/b"] {
            assert_eq!(
                path_match(&Method::GET, path),
                Err(StatusCode::NOT_FOUND),
                "{path}"
            );
        }
        let refused = router.find(&Method::PUT, "/api/v1/sessions").err();
        let refused = refused.expect("no such method");
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[ALLOW], "GET,POST,HEAD");
    }
}
