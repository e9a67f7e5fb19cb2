//! [`Metrics`]: what the server counts about itself, for Prometheus.

use std::time::Duration;

use cleveragents_application::UsageMetrics;
use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRoute {
    route: &'static str,
}

/// What the server counts about itself.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    durations: Family<OfRoute, Histogram>,
    listeners: Gauge,
    running: Gauge,
    waiting: Gauge,
    connections: Gauge,
}

/// How much goes on at a moment.
pub(crate) struct Now {
    /// Who listens to events.
    pub(crate) listeners: usize,
    /// What runs.
    pub(crate) running: usize,
    /// What waits to be run.
    pub(crate) waiting: usize,
    /// Who is connected.
    pub(crate) connections: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("cleveragents");
        let requests = Family::default();
        registry.register(
            "http_requests",
            "Requests that were answered",
            requests.clone(),
        );
        let durations: Family<OfRoute, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 4.0, 9)));
        registry.register(
            "http_request_duration_seconds",
            "How long answers took",
            durations.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            listeners: gauge("event_listeners", "Who listens to events"),
            running: gauge("running", "Turns, plans and operations that run"),
            waiting: gauge("waiting", "Turns, plans and operations that wait to be run"),
            connections: gauge("connections", "Connections that are open"),
            registry,
            requests,
            durations,
        }
    }
}

impl Metrics {
    /// Counts an answer.
    pub(crate) fn answered(
        &self,
        method: &'static str,
        route: &'static str,
        status: StatusCode,
        took: Duration,
    ) {
        self.requests
            .get_or_create(&Answered {
                method,
                route,
                status: status.as_u16(),
            })
            .inc();
        self.durations
            .get_or_create(&OfRoute { route })
            .observe(took.as_secs_f64());
    }

    /// Writes all of it, and the usage metrics.
    pub(crate) fn text(&self, now: &Now, usage: &UsageMetrics) -> Result<String, std::fmt::Error> {
        for (gauge, count) in [
            (&self.listeners, now.listeners),
            (&self.running, now.running),
            (&self.waiting, now.waiting),
            (&self.connections, now.connections),
        ] {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        crate::usage_metrics::write(&mut text, usage)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}
