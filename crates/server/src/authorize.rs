//! Authorizes requests: identifies the caller, checks its permissions against the route's entry in the table, and
//! records denials in the audit log. No handler runs without a [`Permit`], and only this file creates permits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::forbidden;
use cleveragents_domain::identity::{Access, Caller, Namespaces, Permission, Scope};
use cleveragents_domain::{Code, PlanId, SessionId};
use http::{HeaderMap, Method};

use crate::api::idempotency;
use crate::app::App;
use crate::log;
use crate::problem::Problem;
use crate::routes::{Handler, Route, RouteScope, Verb};

/// The named parts of a path.
pub(crate) type Parameters = Vec<(String, String)>;

/// The matched route of a request.
pub(crate) struct MatchedRoute {
    pub(crate) route: &'static Route,
    pub(crate) parameters: Parameters,
    pub(crate) peer: SocketAddr,
}

/// Proof that the caller may call the route. Only this file creates it.
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
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The address of the client.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The namespaces in which the caller may read with this route.
    pub(crate) fn visible(&self) -> Namespaces {
        self.caller.reach(self.scope, Permission::Read)
    }

    /// The session that the path names. The caller has access to it.
    pub(crate) fn session(&self) -> Result<SessionId, Problem> {
        self.session.ok_or_else(|| missing_part("session"))
    }

    /// The plan that the path names. The caller has access to it.
    pub(crate) fn plan(&self) -> Result<PlanId, Problem> {
        self.plan.ok_or_else(|| missing_part("plan"))
    }

    /// A part of the path.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let mut parameters = self.parameters.iter();
        parameters
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    /// Checks that the caller may call the route in a namespace that only the body names.
    pub(crate) async fn in_namespace(
        &self,
        app: &Arc<App>,
        namespace: &str,
    ) -> Result<(), Problem> {
        self.with(app, self.scope, self.permission, namespace).await
    }

    /// Checks that the caller has a permission on an object of a namespace. The error of a caller who may not read the
    /// object is `absent`.
    pub(crate) async fn on_object<E: From<Problem>>(
        &self,
        app: &Arc<App>,
        permission: Permission,
        namespace: &str,
        absent: impl FnOnce() -> E,
    ) -> Result<(), E> {
        let access = self.caller.access(self.scope, permission, namespace);
        if access == Access::Granted {
            return Ok(());
        }
        record_denial(app, &self.caller, self.route, permission, namespace).await?;
        Err(if access == Access::Hidden {
            absent()
        } else {
            Problem::from_error(&forbidden(permission, namespace)).into()
        })
    }

    /// Checks that the caller has another permission in a namespace.
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

    /// Checks that the caller has a permission in every namespace.
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

fn missing_part(part: &str) -> Problem {
    Problem::new(Code::Internal, format!("the route names no {part}"))
}

/// Authorizes a request and runs its handler.
pub(crate) async fn handle_request(
    app: &Arc<App>,
    matched: MatchedRoute,
    request: Request,
) -> Response {
    let started_at = Instant::now();
    let route = matched.route;
    let is_head = request.method() == Method::HEAD;
    log::record_route(route.path);
    let outcome = handle(app, matched, request).await;
    let response = outcome.unwrap_or_else(Problem::into_response);
    let method = if is_head { "HEAD" } else { route.verb.as_str() };
    app.metrics
        .answered(method, route.path, response.status(), started_at.elapsed());
    response
}

async fn handle(
    app: &Arc<App>,
    matched: MatchedRoute,
    request: Request,
) -> Result<Response, Problem> {
    let route = matched.route;
    let permit = match route.place {
        RouteScope::Open => None,
        _ => Some(permit(app, matched, request.headers()).await?),
    };
    match (route.handler, permit) {
        (Handler::Open(handler), _) => handler(Arc::clone(app), request).await,
        (Handler::Permitted(handler), Some(permit))
            if route.verb == Verb::Post && idempotency::has_key(request.headers()) =>
        {
            idempotency::once(app, permit, request, handler).await
        }
        (Handler::Permitted(handler) | Handler::WithKeys(handler), Some(permit)) => {
            handler(Arc::clone(app), permit, request).await
        }
        (Handler::Permitted(_) | Handler::WithKeys(_), None) => {
            Err(Problem::new(Code::Internal, "the route has no scope"))
        }
    }
}

async fn permit(
    app: &Arc<App>,
    matched: MatchedRoute,
    headers: &HeaderMap,
) -> Result<Permit, Problem> {
    let MatchedRoute {
        route,
        parameters,
        peer,
    } = matched;
    let caller = match app.callers.identify(headers, peer).await {
        Ok(caller) => caller,
        Err(problem) => {
            if problem.code == Code::Unauthenticated.as_str() {
                record_unauthenticated(app, route.path, peer).await;
            }
            return Err(problem);
        }
    };
    log::record_caller(caller.identity());
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
        RouteScope::Open | RouteScope::Body => {}
        RouteScope::Any => {
            if permit
                .caller
                .reach(route.scope, route.permission)
                .is_empty()
            {
                return Err(deny(app, &permit.caller, route.path, route.permission, "*").await);
            }
        }
        RouteScope::Everywhere => {
            permit
                .everywhere(app, route.scope, route.permission)
                .await?;
        }
        RouteScope::Session => {
            let (id, namespace) = session(app, permit.parameter("session")).await?;
            let absent = || {
                let message = format!("the session `{id}` does not exist");
                Problem::new(Code::SessionNotFound, message)
            };
            permit
                .on_object(app, route.permission, &namespace, absent)
                .await?;
            permit.session = Some(id);
        }
        RouteScope::Plan => {
            let (id, namespace) = plan(app, permit.parameter("plan")).await?;
            let absent = || no_plan(&id.to_string());
            permit
                .on_object(app, route.permission, &namespace, absent)
                .await?;
            permit.plan = Some(id);
        }
    }
    Ok(permit)
}

async fn session(app: &Arc<App>, reference: &str) -> Result<(SessionId, Arc<str>), Problem> {
    let id = reference
        .parse::<SessionId>()
        .map_err(|error| Problem::from_error(&error))?;
    let namespace = app.namespace_of_session(id).await?;
    Ok((id, namespace))
}

async fn plan(app: &Arc<App>, reference: &str) -> Result<(PlanId, String), Problem> {
    let id = reference
        .parse::<PlanId>()
        .map_err(|error| Problem::from_error(&error))?;
    let plans = app.services.plans();
    let namespace = crate::blocking(move || plans.namespace(id)).await?;
    namespace
        .map(|namespace| (id, namespace))
        .ok_or_else(|| no_plan(&id.to_string()))
}

fn no_plan(id: &str) -> Problem {
    Problem::new(
        Code::PlanNotFound,
        format!("the plan `{id}` does not exist"),
    )
}

/// Records a denial and returns the problem for the caller.
async fn deny(
    app: &Arc<App>,
    caller: &Arc<Caller>,
    route: &'static str,
    permission: Permission,
    namespace: &str,
) -> Problem {
    match record_denial(app, caller, route, permission, namespace).await {
        Ok(()) => Problem::from_error(&forbidden(permission, namespace)),
        Err(problem) => problem,
    }
}

async fn record_denial(
    app: &Arc<App>,
    caller: &Arc<Caller>,
    route: &'static str,
    permission: Permission,
    namespace: &str,
) -> Result<(), Problem> {
    let audit = app.services.audit();
    let (caller, namespace) = (Arc::clone(caller), namespace.to_owned());
    let recorded = crate::blocking(move || {
        cleveragents_application::record_denial(&audit, &caller, route, permission, &namespace)
    });
    recorded.await.map_err(|error| Problem::from_error(&error))
}

/// Records a request without a valid token.
async fn record_unauthenticated(app: &Arc<App>, route: &'static str, peer: SocketAddr) {
    let audit = app.services.audit();
    let recorded = crate::blocking(move || audit.authentication_failed(peer.ip(), route));
    // The caller is rejected even if recording fails.
    let _recorded = recorded.await;
}
