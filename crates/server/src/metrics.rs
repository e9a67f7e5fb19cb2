//! [`Metrics`]: counters of the server itself, for Prometheus.

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
struct ResponseLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

/// Counters of the server itself.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<ResponseLabels, Counter>,
    durations: Family<RouteLabels, Histogram>,
    listeners: Gauge,
    running: Gauge,
    waiting: Gauge,
    connections: Gauge,
}

/// Current values of the gauges.
pub(crate) struct GaugeValues {
    pub(crate) listeners: usize,
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) connections: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("cleveragents");
        let requests = Family::default();
        registry.register(
            "http_requests",
            "Requests that the server responded to",
            requests.clone(),
        );
        let durations: Family<RouteLabels, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0005, 4.0, 9)));
        registry.register(
            "http_request_duration_seconds",
            "Duration of requests",
            durations.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            listeners: gauge("event_listeners", "Open event streams"),
            running: gauge("running", "Running turns, plans and operations"),
            waiting: gauge(
                "waiting",
                "Turns, plans and operations that wait for a slot",
            ),
            connections: gauge("connections", "Open connections"),
            registry,
            requests,
            durations,
        }
    }
}

impl Metrics {
    /// Counts a response.
    pub(crate) fn answered(
        &self,
        method: &'static str,
        route: &'static str,
        status: StatusCode,
        duration: Duration,
    ) {
        self.requests
            .get_or_create(&ResponseLabels {
                method,
                route,
                status: status.as_u16(),
            })
            .inc();
        self.durations
            .get_or_create(&RouteLabels { route })
            .observe(duration.as_secs_f64());
    }

    /// All metrics in the OpenMetrics format, with the usage metrics.
    pub(crate) fn text(
        &self,
        values: &GaugeValues,
        usage: &UsageMetrics,
    ) -> Result<String, std::fmt::Error> {
        for (gauge, count) in [
            (&self.listeners, values.listeners),
            (&self.running, values.running),
            (&self.waiting, values.waiting),
            (&self.connections, values.connections),
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
