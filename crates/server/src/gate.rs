//! The one way to a handler: who calls is found out, what they may do is checked against the route's entry in the
//! table, and a denial is written down. Without a [`Permit`] no handler runs, and only this file makes one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_domain::{Code, PlanId, SessionId};
use http::{HeaderMap, Method};

use crate::api::keys;
use crate::app::App;
use crate::log;
use crate::problem::Problem;
use crate::routes::{Handler, Place, Route, Verb};

/// How much of a namespace that nobody has is written down.
const LONGEST_NAMESPACE: usize = 128;

/// The parts of a path that have names.
pub(crate) type Parameters = Vec<(String, String)>;

/// The way by which a request came.
pub(crate) struct Way {
    pub(crate) route: &'static Route,
    pub(crate) parameters: Parameters,
    pub(crate) peer: SocketAddr,
}

/// That a caller may do what the route does. Made by the gate alone.
pub(crate) struct Permit {
    caller: Arc<Caller>,
    scope: Scope,
    permission: Permission,
    route: &'static str,
    parameters: Parameters,
    peer: SocketAddr,
    session: Option<SessionId>,
    plan: Option<PlanId>,
}

impl Permit {
    /// Who calls.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Where the request came from.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What the caller may look at here.
    pub(crate) fn visible(&self) -> Namespaces {
        self.caller.reach(self.scope, Permission::Read)
    }

    /// The session that the path names, which the caller may use.
    pub(crate) fn session(&self) -> Result<SessionId, Problem> {
        self.session.ok_or_else(|| unnamed("session"))
    }

    /// The plan that the path names, which the caller may use.
    pub(crate) fn plan(&self) -> Result<PlanId, Problem> {
        self.plan.ok_or_else(|| unnamed("plan"))
    }

    /// A part of the path.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let mut parameters = self.parameters.iter();
        parameters
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    /// Checks what only the body says: that the caller may do this in a namespace too.
    pub(crate) async fn in_namespace(
        &self,
        app: &Arc<App>,
        namespace: &str,
    ) -> Result<(), Problem> {
        self.with(app, self.scope, self.permission, namespace).await
    }

    /// Checks that the caller may do something else in a namespace too.
    pub(crate) async fn with(
        &self,
        app: &Arc<App>,
        scope: Scope,
        permission: Permission,
        namespace: &str,
    ) -> Result<(), Problem> {
        if self.caller.may(scope, permission, namespace) {
            return Ok(());
        }
        Err(deny(app, &self.caller, self.route, permission, namespace).await)
    }

    /// Checks that the caller may do something that belongs to no namespace.
    pub(crate) async fn everywhere(
        &self,
        app: &Arc<App>,
        scope: Scope,
        permission: Permission,
    ) -> Result<(), Problem> {
        if self.caller.may_everywhere(scope, permission) {
            return Ok(());
        }
        Err(deny(app, &self.caller, self.route, permission, "*").await)
    }
}

fn unnamed(what: &str) -> Problem {
    Problem::new(Code::Internal, format!("the route names no {what}"))
}

/// Answers a request.
pub(crate) async fn enter(app: &Arc<App>, way: Way, request: Request) -> Response {
    let begun = Instant::now();
    let route = way.route;
    let is_head = request.method() == Method::HEAD;
    log::routed(route.path);
    let outcome = admit(app, way, request).await;
    let response = outcome.unwrap_or_else(Problem::into_response);
    let method = if is_head { "HEAD" } else { route.verb.as_str() };
    app.metrics
        .answered(method, route.path, response.status(), begun.elapsed());
    response
}

async fn admit(app: &Arc<App>, way: Way, request: Request) -> Result<Response, Problem> {
    let route = way.route;
    let permit = match route.place {
        Place::Open => None,
        _ => Some(permit(app, way, request.headers()).await?),
    };
    match (route.handler, permit) {
        (Handler::Open(handler), _) => handler(Arc::clone(app), request).await,
        (Handler::Permitted(handler), Some(permit))
            if route.verb == Verb::Post && keys::has_key(request.headers()) =>
        {
            keys::once(app, permit, request, handler).await
        }
        (Handler::Permitted(handler) | Handler::WithKeys(handler), Some(permit)) => {
            handler(Arc::clone(app), permit, request).await
        }
        (Handler::Permitted(_) | Handler::WithKeys(_), None) => {
            Err(Problem::new(Code::Internal, "the route has no place"))
        }
    }
}

async fn permit(app: &Arc<App>, way: Way, headers: &HeaderMap) -> Result<Permit, Problem> {
    let Way {
        route,
        parameters,
        peer,
    } = way;
    let caller = match app.callers.identify(headers, peer).await {
        Ok(caller) => caller,
        Err(problem) => {
            if problem.code == Code::Unauthenticated.as_str() {
                unknown(app, route.path, peer).await;
            }
            return Err(problem);
        }
    };
    log::identified(caller.identity());
    let mut permit = Permit {
        caller,
        scope: route.scope,
        permission: route.permission,
        route: route.path,
        parameters,
        peer,
        session: None,
        plan: None,
    };
    match route.place {
        Place::Open | Place::Body => {}
        Place::Any => {
            if permit
                .caller
                .reach(route.scope, route.permission)
                .is_empty()
            {
                return Err(deny(app, &permit.caller, route.path, route.permission, "*").await);
            }
        }
        Place::Everywhere => {
            permit
                .everywhere(app, route.scope, route.permission)
                .await?;
        }
        Place::Session => {
            let (id, namespace) = session(app, permit.parameter("session")).await?;
            seen(app, &permit, &namespace, || {
                Problem::new(
                    Code::SessionNotFound,
                    format!("the session `{id}` does not exist"),
                )
            })
            .await?;
            permit.session = Some(id);
        }
        Place::Plan => {
            let (id, namespace) = plan(app, permit.parameter("plan")).await?;
            seen(app, &permit, &namespace, || no_plan(&id.to_string())).await?;
            permit.plan = Some(id);
        }
    }
    Ok(permit)
}

/// Checks what a path names. To whom cannot look at it, it does not exist.
async fn seen(
    app: &Arc<App>,
    permit: &Permit,
    namespace: &str,
    absent: impl FnOnce() -> Problem,
) -> Result<(), Problem> {
    let checked = permit.in_namespace(app, namespace).await;
    if checked.is_err() && !permit.caller.may(permit.scope, Permission::Read, namespace) {
        return Err(absent());
    }
    checked
}

async fn session(app: &Arc<App>, reference: &str) -> Result<(SessionId, Arc<str>), Problem> {
    let id = reference
        .parse::<SessionId>()
        .map_err(|error| Problem::of(&error))?;
    let namespace = app.namespace_of_session(id).await?;
    Ok((id, namespace))
}

async fn plan(app: &Arc<App>, reference: &str) -> Result<(PlanId, String), Problem> {
    let id = reference
        .parse::<PlanId>()
        .map_err(|error| Problem::of(&error))?;
    let plans = app.services.plans();
    let found = crate::blocking(move || plans.namespace(id)).await?;
    found
        .map(|namespace| (id, namespace))
        .ok_or_else(|| no_plan(&id.to_string()))
}

fn no_plan(id: &str) -> Problem {
    Problem::new(
        Code::PlanNotFound,
        format!("the plan `{id}` does not exist"),
    )
}

/// Writes a denial down and gives what the caller is told.
async fn deny(
    app: &Arc<App>,
    caller: &Arc<Caller>,
    route: &'static str,
    permission: Permission,
    namespace: &str,
) -> Problem {
    let role = permission.least_role();
    // What the caller wrote, as far as it can be kept.
    let namespace: String = namespace
        .chars()
        .take(LONGEST_NAMESPACE)
        .map(|letter| {
            if letter.is_control() {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect();
    let (audit, by, denied) = (app.services.audit(), Arc::clone(caller), namespace.clone());
    let recorded =
        crate::blocking(move || audit.access_denied(by.identity(), route, permission, &denied));
    if let Err(error) = recorded.await {
        return error.into();
    }
    Problem::new(
        Code::Forbidden,
        format!("this needs the role {role} on `{namespace}`"),
    )
    .with_hint("ask an owner of the namespace for a token with that role")
}

/// Writes down that somebody came whom nobody knows.
async fn unknown(app: &Arc<App>, route: &'static str, peer: SocketAddr) {
    let audit = app.services.audit();
    let recorded = crate::blocking(move || audit.authentication_failed(peer.ip(), route));
    // The caller is refused whether or not it could be recorded.
    let _recorded = recorded.await;
}

/// The whole body of a request, no longer than is taken and no slower.
pub(crate) async fn body(app: &App, body: Body) -> Result<bytes::Bytes, Problem> {
    let limited = axum::body::to_bytes(body, app.options.max_body_bytes);
    match tokio::time::timeout(app.options.request_timeout, limited).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(if is_too_long(&error) {
            Problem::new(
                Code::RequestTooLarge,
                format!(
                    "the body has more than {} bytes",
                    app.options.max_body_bytes
                ),
            )
        } else {
            Problem::new(Code::MalformedRequest, "the body broke off")
        }),
        Err(_) => Err(
            Problem::new(Code::MalformedRequest, "the body came too slowly")
                .with_status(http::StatusCode::REQUEST_TIMEOUT),
        ),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = inner.source();
    }
    false
}
