//! The methods of the protocol, independent of the binding.

use std::sync::Arc;

use cleveragents_a2a::{
    AgentCard, Error, ErrorReason, Fields, Method, ProtocolVersion, PushNotificationConfig,
    StreamResponse, Task, read_task_state,
};
use cleveragents_application::{TaskFilter, TaskRecord, TaskView};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{TaskId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::RequestError;
use super::stream::UpdateStream;
use super::{card, push, send};
use crate::app::App;
use crate::authorize::Permit;

/// Default and maximum number of tasks on a page.
const DEFAULT_PAGE_SIZE: i64 = 50;
const MAX_PAGE_SIZE: i64 = 100;

/// The result of a method: one response or a stream.
pub(crate) enum MethodResult {
    Response(Box<MethodResponse>),
    Updates(UpdateStream),
}

/// A result that is a single response.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum MethodResponse {
    SendMessage(StreamResponse),
    Task(Task),
    Tasks(TaskList),
    PushConfig(PushNotificationConfig),
    PushConfigs(PushConfigList),
    Card(Box<AgentCard>),
    /// `null`, and `{}` over HTTP+JSON.
    Empty(()),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskList {
    tasks: Vec<Task>,
    /// Empty on the last page.
    next_page_token: String,
    page_size: i64,
    total_size: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushConfigList {
    pub(super) configs: Vec<PushNotificationConfig>,
    pub(super) next_page_token: &'static str,
}

/// The permission that a method needs in the namespace of the task. Push configurations may hold secrets of their
/// creator, so reading them needs more than reading the task.
pub(super) const fn permission_of(method: Method) -> Permission {
    match method {
        Method::GetTask
        | Method::ListTasks
        | Method::SubscribeToTask
        | Method::GetExtendedAgentCard => Permission::Read,
        Method::SendMessage
        | Method::SendStreamingMessage
        | Method::CancelTask
        | Method::CreatePushConfig
        | Method::GetPushConfig
        | Method::ListPushConfigs
        | Method::DeletePushConfig => Permission::Write,
    }
}

/// A call of a method by a caller.
pub(crate) struct MethodCall {
    pub(crate) app: Arc<App>,
    pub(crate) permit: Permit,
    pub(crate) method: Method,
    /// The protocol version of the caller. `params` are already converted to 1.0.
    pub(crate) version: ProtocolVersion,
    pub(crate) params: Map<String, Value>,
}

impl MethodCall {
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields(&self.params)
    }

    /// Checks that the caller may call the method in a namespace.
    pub(super) async fn authorize(&self, namespace: &str) -> Result<(), RequestError> {
        let needed = permission_of(self.method);
        let permit = &self.permit;
        permit
            .with(&self.app, Scope::Tasks, needed, namespace)
            .await
            .map_err(RequestError::from)
    }

    /// Looks up a task and checks that the caller may call the method on it. A task that the caller must not see is
    /// reported as missing.
    pub(super) async fn task(&self, id: &str) -> Result<TaskRecord, RequestError> {
        let not_found = || RequestError::from(Error::task_not_found(id));
        let task: TaskId = id.parse().map_err(|_| not_found())?;
        let tasks = self.app.services.tasks();
        let stored = crate::blocking(move || tasks.get(task)).await?;
        let task = stored
            .filter(|task| self.is_tenant(&task.namespace))
            .ok_or_else(not_found)?;
        let needed = permission_of(self.method);
        self.permit
            .on_object(&self.app, needed, &task.namespace, not_found)
            .await?;
        Ok(task)
    }

    /// True if the request names this namespace as its tenant, or names no tenant.
    fn is_tenant(&self, namespace: &str) -> bool {
        match self.fields().text("tenant") {
            Ok(Some(tenant)) => tenant == namespace,
            _ => true,
        }
    }
}

/// Runs a method.
pub(crate) async fn handle(call: MethodCall) -> Result<MethodResult, RequestError> {
    let response = match call.method {
        Method::SendMessage => MethodResponse::SendMessage(send::send(call).await?),
        Method::SendStreamingMessage => {
            return send::stream(call).await.map(MethodResult::Updates);
        }
        Method::SubscribeToTask => return subscribe(call).await.map(MethodResult::Updates),
        Method::GetTask => MethodResponse::Task(get(call).await?),
        Method::ListTasks => MethodResponse::Tasks(list(call).await?),
        Method::CancelTask => MethodResponse::Task(cancel(call).await?),
        Method::CreatePushConfig => MethodResponse::PushConfig(push::create(call).await?),
        Method::GetPushConfig => MethodResponse::PushConfig(push::get(call).await?),
        Method::ListPushConfigs => MethodResponse::PushConfigs(push::list(call).await?),
        Method::DeletePushConfig => MethodResponse::Empty(push::delete(call).await?),
        Method::GetExtendedAgentCard => {
            let needed = permission_of(call.method);
            // A caller without read access to tasks in any namespace gets no extended card.
            if call.permit.caller().reach(Scope::Tasks, needed).is_empty() {
                call.authorize("*").await?;
            }
            let card = card::extended(&call.app, &call.permit).await;
            MethodResponse::Card(Box::new(card))
        }
    };
    Ok(MethodResult::Response(Box::new(response)))
}

async fn get(call: MethodCall) -> Result<Task, RequestError> {
    let history = call.fields().history_length()?;
    let id = call.task(call.fields().required_text("id")?).await?.id;
    let tasks = call.app.services.tasks();
    let view = TaskView::with_history(history);
    let stored = crate::blocking(move || tasks.view(id, view)).await?;
    stored
        .map(|(_, task)| task)
        .ok_or_else(|| Error::task_not_found(&id.to_string()).into())
}

async fn subscribe(call: MethodCall) -> Result<UpdateStream, RequestError> {
    let id = call.task(call.fields().required_text("id")?).await?.id;
    // Subscribes before the task is read, so that no change is missed.
    let watch = call.app.tasks.watch(id);
    let tasks = call.app.services.tasks();
    let stored = crate::blocking(move || tasks.view(id, TaskView::WHOLE)).await?;
    let (record, snapshot) = stored.ok_or_else(|| Error::task_not_found(&id.to_string()))?;
    if record.state.is_over() {
        return Err(RequestError::new(
            ErrorReason::UnsupportedOperation,
            "the task has finished and has no more updates",
        ));
    }
    Ok(UpdateStream::after(
        call.app, &record, watch, snapshot, false,
    ))
}

async fn cancel(call: MethodCall) -> Result<Task, RequestError> {
    let record = call.task(call.fields().required_text("id")?).await?;
    let id = record.id;
    let tasks = call.app.services_of(call.permit.caller()).tasks();
    let cancelled = crate::blocking(move || tasks.cancel(id)).await?;
    let Some(task) = cancelled else {
        return Err(RequestError::new(
            ErrorReason::TaskNotCancelable,
            "the task has finished and cannot be cancelled",
        ));
    };
    call.app.tasks.stop(id);
    call.app.tasks.wake(id);
    super::plan::cancel(&call.app, call.permit.caller(), &record);
    Ok(task)
}

async fn list(call: MethodCall) -> Result<TaskList, RequestError> {
    let fields = call.fields();
    let page_size = fields.integer("pageSize")?.unwrap_or(DEFAULT_PAGE_SIZE);
    if !(1..=MAX_PAGE_SIZE).contains(&page_size) {
        return Err(RequestError::invalid_params(
            "`pageSize` must be from 1 to 100",
        ));
    }
    let since = fields.text("statusTimestampAfter")?;
    let since = since.map(str::parse::<Timestamp>).transpose();
    let filter = TaskFilter {
        visible: call.permit.visible(),
        namespace: fields.text("tenant")?.map(str::to_owned),
        context: fields.id("contextId")?.map(str::to_owned),
        state: match fields.get("status") {
            Some(state) => read_task_state(state)?,
            None => None,
        },
        since: since.map_err(|error| RequestError::invalid_params(error.to_string()))?,
        after: fields.text("pageToken")?.map(read_page_token).transpose()?,
        limit: page_size.unsigned_abs(),
    };
    let view = TaskView {
        history: fields.history_length()?,
        artifacts: fields.flag("includeArtifacts")?,
    };
    if filter.visible.is_empty() {
        call.authorize("*").await?;
    }
    let tasks = call.app.services.tasks();
    let mut page = crate::blocking(move || tasks.list(&filter, view)).await?;
    if view.artifacts {
        for task in &mut page.tasks {
            task.artifacts.get_or_insert_default();
        }
    }
    Ok(TaskList {
        tasks: page.tasks,
        next_page_token: page.next.map(page_token).unwrap_or_default(),
        page_size,
        total_size: page.total,
    })
}

fn page_token((changed_at, id): (Timestamp, TaskId)) -> String {
    hex::encode(format!("{}:{id}", changed_at.as_micros()))
}

fn read_page_token(token: &str) -> Result<(Timestamp, String), RequestError> {
    let read = || {
        let text = String::from_utf8(hex::decode(token).ok()?).ok()?;
        let (moment, id) = text.split_once(':')?;
        let id: TaskId = id.parse().ok()?;
        Some((Timestamp::from_micros(moment.parse().ok()?), id.to_string()))
    };
    read().ok_or_else(|| RequestError::invalid_params("`pageToken` was not issued by this server"))
}
