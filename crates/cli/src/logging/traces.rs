//! [`Traces`]: sends finished spans to a collector (OTLP over HTTP, as JSON). No caller waits for the collector: spans
//! that it does not accept in time are lost.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use cleveragents_outbound as outbound;
use cleveragents_telemetry::{self as telemetry, FinishedSpan};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::context::Context;
use crate::output::CommandError;

/// Maximum number of queued spans; more are dropped.
const MAX_QUEUED_SPANS: usize = 8_192;

/// Maximum number of spans in a request.
const MAX_BATCH_SPANS: usize = 512;

/// Interval at which collected spans are sent.
const SEND_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait for the last spans at the end of the program.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The OpenTelemetry variable with headers for the collector, such as a key.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

enum TraceMessage {
    Span(Box<FinishedSpan>),
    /// Sends everything queued before it, then confirms.
    Flush(SyncSender<()>),
}

/// Queue of the thread that sends traces. Dropping it sends the queued spans.
pub(super) struct Traces(SyncSender<TraceMessage>);

impl Traces {
    /// Starts the thread that sends spans to the collector at `endpoint`. Also returns a function that queues a span
    /// without blocking.
    pub(super) fn start(
        context: &Context,
        endpoint: &str,
    ) -> Result<(Self, impl Fn(FinishedSpan) + Send + Sync + use<>), CommandError> {
        let headers = headers(context.environment.text(HEADERS).as_deref())?;
        let collector = Collector::new(endpoint, headers)?;
        let (sender, spans) = sync_channel(MAX_QUEUED_SPANS);
        std::thread::Builder::new()
            .name("agents-traces".to_owned())
            .spawn(move || collector.send_all(&spans))
            .map_err(|error| CommandError::internal("cannot start a thread").caused_by(&error))?;
        let sink = sender.clone();
        let send = move |span| {
            // If the queue is full, the span is dropped: no caller waits for the collector.
            let _full = sink.try_send(TraceMessage::Span(Box::new(span)));
        };
        Ok((Self(sender), send))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        let (confirm, confirmation) = sync_channel(1);
        if self.0.try_send(TraceMessage::Flush(confirm)).is_ok() {
            let _in_time = confirmation.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

struct Collector {
    url: Url,
    client: Client,
    runtime: tokio::runtime::Runtime,
    resource: Vec<(&'static str, String)>,
}

impl Collector {
    fn new(endpoint: &str, headers: HeaderMap) -> Result<Self, CommandError> {
        let url = traces_url(endpoint).ok_or_else(|| {
            CommandError::usage("the URL of the collector is invalid")
                .with_hint("use for example http://127.0.0.1:4318")
        })?;
        let failed = |why: &str| CommandError::internal(format!("traces cannot be sent: {why}"));
        let tls = outbound::tls(url.scheme() == "https").map_err(|why| failed(&why))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .default_headers(headers)
            .redirect(Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(&error.without_url().to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error.to_string()))?;
        Ok(Self {
            url,
            client,
            runtime,
            resource: vec![
                ("service.name", "cleveragents".to_owned()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
                ("service.instance.id", std::process::id().to_string()),
            ],
        })
    }

    /// Sends spans in batches.
    fn send_all(&self, spans: &Receiver<TraceMessage>) {
        let mut batch: Vec<FinishedSpan> = Vec::new();
        let mut batch_start = Instant::now();
        let mut was_accepted = true;
        loop {
            let wait = if batch.is_empty() {
                Duration::MAX
            } else {
                SEND_INTERVAL.saturating_sub(batch_start.elapsed())
            };
            // Without spans the thread sleeps until the next message.
            let next = if wait == Duration::MAX {
                spans.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                spans.recv_timeout(wait)
            };
            let mut confirmation = None;
            match next {
                Ok(TraceMessage::Span(span)) => {
                    if batch.is_empty() {
                        batch_start = Instant::now();
                    }
                    batch.push(*span);
                    if batch.len() < MAX_BATCH_SPANS {
                        continue;
                    }
                }
                Ok(TraceMessage::Flush(confirm)) => confirmation = Some(confirm),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !batch.is_empty() {
                let sent = self.send(&batch);
                if let (true, Err(why)) = (was_accepted, &sent) {
                    tracing::warn!(%why, "the collector does not accept traces; they are lost");
                }
                was_accepted = sent.is_ok();
                batch.clear();
            }
            if let Some(confirm) = confirmation {
                // The waiting thread may have timed out.
                let _received = confirm.try_send(());
            }
        }
    }

    fn send(&self, batch: &[FinishedSpan]) -> Result<(), String> {
        let body = telemetry::request(batch, &self.resource).to_string();
        let request = self.client.post(self.url.clone());
        let request = request
            .header("content-type", "application/json")
            .body(body);
        self.runtime.block_on(async {
            let response = request.send().await;
            let response = response.map_err(|error| error.without_url().to_string())?;
            let status = response.status();
            // The body is read so that the connection can be reused.
            let _read = response.bytes().await;
            if status.is_success() {
                Ok(())
            } else {
                Err(format!("status {}", status.as_u16()))
            }
        })
    }
}

/// The traces endpoint of a collector: appends `/v1/traces` to its address unless the address already ends with it.
fn traces_url(endpoint: &str) -> Option<Url> {
    let endpoint = endpoint.trim_end_matches('/');
    let url = if endpoint.ends_with("/v1/traces") {
        endpoint.to_owned()
    } else {
        format!("{endpoint}/v1/traces")
    };
    Url::parse(&url).ok()
}

/// Parses headers in the OpenTelemetry syntax: `name=value,name=value`.
fn headers(text: Option<&str>) -> Result<HeaderMap, CommandError> {
    let mut headers = HeaderMap::new();
    for pair in text.unwrap_or_default().split(',') {
        if pair.trim().is_empty() {
            continue;
        }
        let header = pair.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            let mut value = HeaderValue::try_from(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let Some((name, value)) = header else {
            // The value may be a secret, so the message does not repeat it.
            let message = format!("{HEADERS} does not contain headers");
            return Err(CommandError::usage(message).with_hint("use NAME=VALUE,NAME=VALUE"));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::{headers, traces_url};

    #[test]
    fn addresses_and_headers_follow_opentelemetry() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://c.example/otlp", "https://c.example/otlp/v1/traces"),
            ("https://c.example/v1/traces", "https://c.example/v1/traces"),
        ] {
            assert_eq!(traces_url(endpoint).expect("a URL").as_str(), url);
        }
        let read = headers(Some("x-key=abc, authorization=Bearer a=b ,")).expect("headers");
        assert_eq!(read.get("x-key").expect("one"), "abc");
        assert_eq!(read.get("authorization").expect("one"), "Bearer a=b");
        assert!(headers(None).expect("none").is_empty());
        let error = headers(Some("secret-without-a-name")).expect_err("refused");
        assert!(
            !error.message().contains("secret-without"),
            "{}",
            error.message()
        );
    }
}
