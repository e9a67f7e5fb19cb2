//! [`Metrics`]: what the server counts about itself, for Prometheus.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: String,
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
        Self {
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
        method: &Method,
        route: &'static str,
        status: StatusCode,
        took: Duration,
    ) {
        self.requests
            .get_or_create(&Answered {
                method: method.to_string(),
                route,
                status: status.as_u16(),
            })
            .inc();
        self.durations
            .get_or_create(&OfRoute { route })
            .observe(took.as_secs_f64());
    }

    /// The registry, to write it out.
    pub(crate) const fn registry(&self) -> &Registry {
        &self.registry
    }
}
