//! `/healthz`, `/readyz` and `/metrics`, for operators.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Permission, Scope};
use http::{StatusCode, header};
use serde_json::json;

use crate::app::App;
use crate::authorize::Permit;
use crate::metrics::GaugeValues;
use crate::problem::Problem;
use crate::routes::{Route, RouteScope, Verb, open, permitted};

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/healthz",
        scope: Scope::Server,
        permission: Permission::Read,
        place: RouteScope::Open,
        summary: "Check that the process responds",
        parameters: &[],
        body: None,
        answer: (200, None),
        handler: open!(alive),
    },
    Route {
        verb: Verb::Get,
        path: "/readyz",
        scope: Scope::Server,
        permission: Permission::Read,
        place: RouteScope::Open,
        summary: "Check that the server accepts work: the database responds and the server is not stopping",
        parameters: &[],
        body: None,
        answer: (200, None),
        handler: open!(ready),
    },
    Route {
        verb: Verb::Get,
        path: "/metrics",
        scope: Scope::Server,
        permission: Permission::Read,
        place: RouteScope::Everywhere,
        summary: "Metrics of the server for Prometheus",
        parameters: &[],
        body: None,
        answer: (200, None),
        handler: permitted!(metrics),
    },
];

async fn alive(_app: Arc<App>, _request: Request) -> Result<Response, Problem> {
    Ok(axum::Json(json!({"status": "alive"})).into_response())
}

async fn ready(app: Arc<App>, _request: Request) -> Result<Response, Problem> {
    if app.shutdown.has_started() {
        return Err(crate::shutdown::stopping());
    }
    let events = app.services.events();
    crate::blocking(move || events.newest())
        .await
        .map_err(|_| {
            Problem::new(Code::ServerBusy, "the database does not respond")
                .with_status(StatusCode::SERVICE_UNAVAILABLE)
                .after(1)
        })?;
    Ok(axum::Json(json!({"status": "ready"})).into_response())
}

async fn metrics(app: Arc<App>, _permit: Permit, _request: Request) -> Result<Response, Problem> {
    let now = GaugeValues {
        listeners: app.feed.listeners(),
        running: app.shutdown.count(),
        waiting: app.slots.waiting(),
        connections: app
            .options
            .max_connections
            .saturating_sub(app.connections.available_permits()),
    };
    let usage = app.usage.get(&app.services).await?;
    let text = app
        .metrics
        .text(&now, &usage)
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
