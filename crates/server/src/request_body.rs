//! Reads request bodies. A body larger than the limit gets 413, one that arrives too slowly 408.

use axum::body::Body;
use cleveragents_domain::Code;

use crate::app::App;
use crate::problem::Problem;

/// Reads the whole body of a request, within the limits on size and time.
pub(crate) async fn read(app: &App, body: Body) -> Result<bytes::Bytes, Problem> {
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
            Problem::new(Code::MalformedRequest, "the body is incomplete")
        }),
        Err(_) => Err(
            Problem::new(Code::MalformedRequest, "reading the body timed out")
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
