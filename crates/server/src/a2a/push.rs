//! Push notifications: reads their configurations and delivers updates.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_a2a::{
    Authentication, Error, ErrorReason, Fields, ProtocolVersion, PushNotificationConfig,
    VERSION_HEADER,
};
use cleveragents_application::{PendingPush, PushDelivery, PushFailure};
use cleveragents_domain::{TaskId, Timestamp};
use cleveragents_outbound::{self as outbound, AddressError};
use futures_util::StreamExt as _;

use super::error::RequestError;
use super::handlers::{MethodCall, PushConfigList};
use crate::app::App;

const DELIVERY_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum number of concurrent deliveries.
const MAX_CONCURRENT: usize = 16;

/// Maximum number of pending deliveries per query.
const MAX_BATCH: u64 = 256;

/// Poll interval for updates of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Reads a push notification configuration, and rejects addresses that the server must not call.
pub(super) fn read_config(
    call: &MethodCall,
    fields: Fields<'_>,
) -> Result<PushNotificationConfig, RequestError> {
    let url = fields.required_text("url")?;
    outbound::check(url, call.app.options.allow_private_addresses).map_err(|refused| {
        Error::invalid_params(format!("`url` may not be called: {refused}")).with("field", "url")
    })?;
    let id = match fields.id("id")? {
        Some(id) => id.to_owned(),
        None => TaskId::generate().to_string(),
    };
    let token = header_value(fields, "token")?;
    let authentication = match fields.object("authentication")? {
        None => None,
        Some(authentication) => Some(Authentication {
            scheme: header_value(authentication, "scheme")?
                .ok_or_else(|| Error::invalid_params("`authentication.scheme` is missing"))?,
            credentials: header_value(authentication, "credentials")?,
        }),
    };
    Ok(PushNotificationConfig {
        id,
        url: url.to_owned(),
        token,
        authentication,
        is_v0_3: call.version == ProtocolVersion::V0_3,
        task_id: None,
    })
}

/// Reads an optional text that must be a valid header value.
fn header_value(fields: Fields<'_>, name: &str) -> Result<Option<String>, RequestError> {
    match fields.text(name)? {
        Some(text) if http::HeaderValue::from_str(text).is_err() => Err(
            RequestError::invalid_params(format!("`{name}` cannot be sent in a header")),
        ),
        text => Ok(text.map(str::to_owned)),
    }
}

pub(super) async fn create(call: MethodCall) -> Result<PushNotificationConfig, RequestError> {
    let task = call.task(call.fields().required_text("taskId")?).await?;
    let config = read_config(&call, call.fields())?;
    let tasks = call.app.services_of(call.permit.caller()).tasks();
    Ok(crate::blocking(move || tasks.add_push_config(task.id, config)).await?)
}

async fn push_configs(call: &MethodCall) -> Result<Vec<PushNotificationConfig>, RequestError> {
    let task = call.task(call.fields().required_text("taskId")?).await?;
    let tasks = call.app.services.tasks();
    Ok(crate::blocking(move || tasks.push_configs(task.id)).await?)
}

pub(super) async fn get(call: MethodCall) -> Result<PushNotificationConfig, RequestError> {
    let mut configs = push_configs(&call).await?;
    let Some(id) = call.fields().id("id")? else {
        // Clients of 0.3 may omit the id of the only configuration.
        return match (call.version, configs.len(), configs.pop()) {
            (ProtocolVersion::V0_3, 1, Some(only)) => Ok(only),
            _ => Err(RequestError::invalid_params("`id` is missing")),
        };
    };
    configs
        .into_iter()
        .find(|config| config.id == id)
        .ok_or_else(|| {
            RequestError::new(
                ErrorReason::TaskNotFound,
                "the task has no push notification of this id",
            )
        })
}

pub(super) async fn list(call: MethodCall) -> Result<PushConfigList, RequestError> {
    // All configurations of a task fit on one page.
    call.fields().integer("pageSize")?;
    Ok(PushConfigList {
        configs: push_configs(&call).await?,
        next_page_token: "",
    })
}

pub(super) async fn delete(call: MethodCall) -> Result<(), RequestError> {
    let task = call.task(call.fields().required_text("taskId")?).await?;
    let id = call.fields().required_text("id")?.to_owned();
    let tasks = call.app.services_of(call.permit.caller()).tasks();
    crate::blocking(move || tasks.remove_push_config(task.id, &id)).await?;
    Ok(())
}

/// Delivers updates for as long as the server runs.
pub(super) async fn deliver_all(app: Arc<App>) {
    loop {
        let tasks = app.services.tasks();
        let pending = crate::blocking(move || tasks.pending_pushes(MAX_BATCH)).await;
        let now = Timestamp::now();
        let (due, later): (Vec<_>, Vec<_>) = pending
            .unwrap_or_default()
            .into_iter()
            .partition(|push| push.due_at() <= now);
        let is_any_due = !due.is_empty();
        futures_util::stream::iter(due)
            .for_each_concurrent(MAX_CONCURRENT, |push| deliver(Arc::clone(&app), push))
            .await;
        if is_any_due {
            continue;
        }
        let micros = later
            .iter()
            .map(|push| push.due_at().as_micros() - now.as_micros())
            .min();
        let pause = micros.and_then(|micros| u64::try_from(micros).ok());
        let pause = pause
            .map_or(POLL_INTERVAL, Duration::from_micros)
            .min(POLL_INTERVAL);
        let _woken = tokio::time::timeout(pause, app.tasks.updated.notified()).await;
    }
}

/// Delivers the next update to one address, unless another server has claimed it.
async fn deliver(app: Arc<App>, push: PendingPush) {
    let (tasks, candidate) = (app.services.tasks(), push.clone());
    let claimed = crate::blocking(move || tasks.claim_push(&candidate)).await;
    let Ok(Some(delivery)) = claimed else {
        return;
    };
    let outcome = send(&app, &delivery).await;
    let tasks = app.services.tasks();
    let stored = crate::blocking(move || tasks.finish_push(&push, outcome));
    // If the database does not respond, the update is delivered again when the claim expires.
    let _stored = stored.await;
}

async fn send(app: &App, delivery: &PushDelivery) -> Result<(), PushFailure> {
    let config = &delivery.config;
    let target = outbound::resolve(&config.url, app.options.allow_private_addresses)
        .await
        .map_err(|refused| PushFailure {
            is_transient: matches!(refused, AddressError::Unresolved),
            reason: refused.to_string(),
        })?;
    let mut request = target
        .post(DELIVERY_TIMEOUT)
        .map_err(|reason| PushFailure {
            reason,
            is_transient: false,
        })?
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(VERSION_HEADER, config.version().as_str());
    if let Some(Authentication {
        scheme,
        credentials: Some(credentials),
    }) = &config.authentication
    {
        request = request.header(
            http::header::AUTHORIZATION,
            outbound::secret(&format!("{scheme} {credentials}")),
        );
    }
    if let Some(token) = &config.token {
        request = request.header("X-A2A-Notification-Token", outbound::secret(token));
    }
    match request.body(delivery.body.to_string()).send().await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(PushFailure {
            reason: format!("it responded {}", answer.status()),
            is_transient: answer.status().is_server_error()
                || matches!(answer.status().as_u16(), 408 | 425 | 429),
        }),
        Err(error) => Err(PushFailure {
            reason: format!("it cannot be reached: {}", outbound::root_cause(&error)),
            is_transient: true,
        }),
    }
}
