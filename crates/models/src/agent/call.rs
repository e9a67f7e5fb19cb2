//! [`AgentCall`]: one request to a remote agent, from sending the message to the final answer, which the agent returns
//! directly, streams, or makes available to polling.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_a2a::agent::read_response;
use cleveragents_a2a::{Message, Method, Part, Role, StreamResponse};
use cleveragents_domain::TaskState;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::answer::AgentAnswer;
use super::connection::{AgentReply, Connection, EventReader};
use super::error::CallError;
use super::{AgentState, MAX_ANSWER_BYTES, PROVIDER};
use crate::async_stream::Outlet;
use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StopReason, StreamEvent, Usage};
use crate::message::{AssistantMessage, ChatMessage, Reasoning, ToolCall, UserPart};
use crate::name::ModelName;
use crate::redact::StreamRedactor;
use crate::request::ChatRequest;

/// Name of the ask-user tool, as models call it.
const ASK_USER: &str = "builtin_S_ask-user";

/// Timeout of a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Poll interval of a task: initial value, and maximum after backoff.
const FIRST_POLL: Duration = Duration::from_millis(100);
const MAX_POLL: Duration = Duration::from_secs(2);

/// Maximum number of consecutive failed polls.
const MAX_FAILED_POLLS: u32 = 5;

type AgentOutlet = Outlet<Result<StreamEvent, ModelError>>;

/// One request to an agent.
pub(super) struct AgentCall<'a> {
    inner: &'a AgentState,
    outlet: &'a AgentOutlet,
    redacted: StreamRedactor,
    answer: AgentAnswer,
    is_task_recorded: bool,
    /// Number of times the request was sent again because its task had been cancelled.
    attempt: u64,
    key: String,
}

impl<'a> AgentCall<'a> {
    pub(super) fn new(
        inner: &'a AgentState,
        outlet: &'a AgentOutlet,
        request: &ChatRequest,
    ) -> Self {
        let key = request
            .key
            .clone()
            .unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
        Self {
            inner,
            outlet,
            redacted: StreamRedactor::new(inner.caller.redactor.clone()),
            answer: AgentAnswer::default(),
            is_task_recorded: false,
            attempt: 0,
            key,
        }
    }

    pub(super) async fn run(&mut self, request: &ChatRequest) -> Result<(), CallError> {
        let connection = self.inner.connect().await?;
        let thread =
            ConversationIds::from_messages(&request.messages, &self.inner.caller.name, &connection);
        if !self.resume(request, &connection).await? {
            self.answer = AgentAnswer::in_context(thread.context.clone());
            self.send(request, &connection, &thread).await?;
        }
        self.wait(&connection).await?;
        self.finish(&connection).await
    }

    /// Looks up the task of a request that was sent earlier. Returns false when the request has to be sent: for the
    /// first time, or again because the task was cancelled or is unknown to the agent.
    async fn resume(
        &mut self,
        request: &ChatRequest,
        connection: &Connection,
    ) -> Result<bool, CallError> {
        let Some(note) = &request.noted else {
            return Ok(false);
        };
        if note["url"].as_str() != Some(&connection.endpoint.interface.url) {
            return Ok(false);
        }
        let Some(task) = note["task"].as_str() else {
            return Ok(false);
        };
        self.attempt = note["attempt"].as_u64().unwrap_or_default();
        let response = match self.poll(connection, task).await {
            Err(error) if error.is_unknown_task() => return Ok(false),
            response => response?,
        };
        if matches!(&response, StreamResponse::Task(task) if task.status.state == TaskState::Canceled)
        {
            self.attempt += 1;
            return Ok(false);
        }
        self.is_task_recorded = true;
        self.answer.task = Some(task.to_owned());
        self.receive(response).await?;
        Ok(true)
    }

    async fn send(
        &mut self,
        request: &ChatRequest,
        connection: &Connection,
        thread: &ConversationIds,
    ) -> Result<(), CallError> {
        let caller = &self.inner.caller;
        let id = match self.attempt {
            0 => self.key.clone(),
            attempt => format!("{}-{attempt}", self.key),
        };
        let message = Message::new(id, Role::User, vec![Part::text(last_message(request))])
            .in_task(thread.context.as_deref(), thread.task.as_deref());
        let is_streaming = connection.endpoint.is_streaming;
        let params = if is_streaming {
            json!({"message": message})
        } else {
            // Return immediately: the task id must be known as soon as possible.
            json!({"message": message, "configuration": {"returnImmediately": true}})
        };
        let mut number = 0;
        let reply = loop {
            let sent = if is_streaming {
                let method = Method::SendStreamingMessage;
                connection.stream(caller, method, &params).await
            } else {
                let wait = caller.limits.first_byte;
                connection
                    .call(caller, Method::SendMessage, &params, wait)
                    .await
                    .map(AgentReply::Whole)
            };
            match sent {
                Ok(reply) => break reply,
                Err(error) => {
                    let pause = caller.retry.pause(number, error.retry_after());
                    let Some(pause) = pause.filter(|_| error.had_no_effect()) else {
                        return Err(error);
                    };
                    sleep(pause).await;
                    number += 1;
                }
            }
        };
        self.answer.reopen();
        match reply {
            AgentReply::Whole(value) => self.receive(read(&value)?).await,
            AgentReply::Events(events) => self.receive_all(events).await,
        }
    }

    /// Reads a stream to its end. An interrupted stream is not an error once the task id is known, because the task can
    /// be polled.
    async fn receive_all(&mut self, mut events: Box<EventReader>) -> Result<(), CallError> {
        loop {
            match events.next().await {
                Ok(Some(value)) => self.receive(read(&value)?).await?,
                Ok(None) => return Ok(()),
                Err(error) if error.is_transient() && self.answer.task.is_some() => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.answer.is_over() {
                return Ok(());
            }
        }
    }

    /// Adds a response to the answer and passes on the new content.
    async fn receive(&mut self, response: StreamResponse) -> Result<(), CallError> {
        let delta = self.answer.add(response);
        let redactor = &self.inner.caller.redactor;
        // Ids are stored, so an id that contains a secret is refused.
        let ids = [&self.answer.task, &self.answer.context];
        let is_secret = |id: &String| redactor.text(id) != id.as_str();
        if ids.into_iter().flatten().any(is_secret) {
            return Err(CallError::Malformed(
                "an id in the response contains a secret".to_owned(),
            ));
        }
        if self.answer.len() > MAX_ANSWER_BYTES {
            return Err(CallError::Large(MAX_ANSWER_BYTES));
        }
        if !self.is_task_recorded
            && let Some(task) = &self.answer.task
            && let Some(connection) = self.inner.opened()
        {
            self.is_task_recorded = true;
            let note = json!({
                "url": connection.endpoint.interface.url,
                "task": task,
                "context": self.answer.context,
                "attempt": self.attempt,
            });
            self.outlet.give(Ok(StreamEvent::Noted(note))).await;
        }
        if !delta.thought.is_empty() {
            let thought = redactor.text(&delta.thought).into_owned();
            self.outlet.give(Ok(StreamEvent::Reasoning(thought))).await;
        }
        let text = self.redacted.push(&delta.text);
        if !text.is_empty() {
            self.outlet.give(Ok(StreamEvent::Text(text))).await;
        }
        Ok(())
    }

    /// Waits until the task ends or needs input.
    async fn wait(&mut self, connection: &Connection) -> Result<(), CallError> {
        let caller = &self.inner.caller;
        let (mut pause, mut failed) = (FIRST_POLL, 0);
        let mut should_subscribe = connection.endpoint.is_streaming;
        while !self.answer.is_over() {
            let Some(task) = self.answer.task.clone() else {
                let why = "the agent returned neither an answer nor a task";
                return Err(CallError::Malformed(why.to_owned()));
            };
            // Subscribe only once: an agent whose streams end early is polled instead.
            if std::mem::take(&mut should_subscribe) {
                let params = json!({"id": task});
                let method = Method::SubscribeToTask;
                let reply = connection.stream(caller, method, &params).await;
                if let Ok(AgentReply::Events(events)) = reply {
                    self.receive_all(events).await?;
                    continue;
                }
            }
            match self.poll(connection, &task).await {
                Ok(response) => {
                    failed = 0;
                    self.receive(response).await?;
                }
                Err(error) if error.is_transient() && failed < MAX_FAILED_POLLS => failed += 1,
                Err(error) => return Err(error),
            }
            if !self.answer.is_over() {
                sleep(pause).await;
                pause = (pause * 3 / 2).min(MAX_POLL);
            }
        }
        Ok(())
    }

    async fn poll(&self, connection: &Connection, task: &str) -> Result<StreamResponse, CallError> {
        let caller = &self.inner.caller;
        let params = json!({"id": task, "historyLength": 0});
        let wait = caller.limits.first_byte;
        let value = connection
            .call(caller, Method::GetTask, &params, wait)
            .await?;
        read(&value)
    }

    /// Sends the last event: the answer, the question of the agent, or the error.
    async fn finish(&mut self, connection: &Connection) -> Result<(), CallError> {
        let caller = &self.inner.caller;
        let redactor = &caller.redactor;
        let status_message = redactor.text(&self.answer.status_message).into_owned();
        let reported = |otherwise: &str| match status_message.trim() {
            "" => otherwise.to_owned(),
            status_message => status_message.to_owned(),
        };
        let failed = |why: String, hint: &str| {
            ModelError::new(ErrorKind::Agent, &caller.name, why).with_hint(hint)
        };
        let error = match self.answer.state {
            None
            | Some(
                TaskState::Completed
                | TaskState::InputRequired
                | TaskState::Submitted
                | TaskState::Working,
            ) => None,
            Some(TaskState::Failed) => Some(failed(
                format!("the agent failed: {}", reported("no reason given")),
                "retry, or ask the operator of the agent",
            )),
            Some(TaskState::Rejected) => Some(failed(
                format!(
                    "the agent rejected the task: {}",
                    reported("no reason given")
                ),
                "send a task that the agent supports: its card lists its skills",
            )),
            Some(TaskState::Canceled) => Some(failed(
                format!(
                    "the agent cancelled the task: {}",
                    reported("no reason given")
                ),
                "send the request again",
            )),
            Some(TaskState::AuthRequired) => Some(failed(
                format!(
                    "the agent requires a login: {}",
                    reported("no login address given")
                ),
                "log in to the agent, then retry",
            )),
        };
        let remaining_text = self.redacted.finish();
        if !remaining_text.is_empty() {
            self.outlet
                .give(Ok(StreamEvent::Text(remaining_text)))
                .await;
        }
        if let Some(error) = error {
            self.outlet.give(Err(error)).await;
            return Ok(());
        }
        let is_question = self.answer.state == Some(TaskState::InputRequired);
        let question = reported("The agent asks for input without a question.");
        let completion = Completion {
            message: AssistantMessage {
                text: redactor.text(&self.answer.text()).into_owned(),
                reasoning: vec![self.continuation_data(connection, is_question)],
                calls: is_question
                    .then(|| ToolCall {
                        id: "question".to_owned(),
                        name: ASK_USER.to_owned(),
                        arguments: json!({"question": question}).to_string(),
                        signature: None,
                    })
                    .into_iter()
                    .collect(),
            },
            usage: Usage::default(),
            cost_micro_usd: None,
            stop: if is_question {
                StopReason::ToolCalls
            } else {
                StopReason::EndTurn
            },
            model: caller.name.clone(),
            attempts: 1,
        };
        let finished = StreamEvent::Finished(Box::new(completion));
        self.outlet.give(Ok(finished)).await;
        Ok(())
    }

    /// Data stored with an answer so that the conversation can continue.
    fn continuation_data(&self, connection: &Connection, is_open: bool) -> Reasoning {
        let task = self.answer.task.as_ref().filter(|_| is_open);
        Reasoning {
            text: String::new(),
            provider: PROVIDER.to_owned(),
            seal: Some(json!({
                "agent": self.inner.caller.name,
                "url": connection.endpoint.interface.url,
                "context": self.answer.context,
                "task": task,
            })),
            after_text: 0,
            after_calls: 0,
        }
    }

    /// Cancels the task at the agent, if there is one. Failures are ignored.
    pub(super) async fn cancel(&mut self) {
        let (Some(connection), Some(task)) = (self.inner.opened(), &self.answer.task) else {
            return;
        };
        if self.answer.is_over() {
            return;
        }
        let params = json!({"id": task});
        let caller = &self.inner.caller;
        let cancelled = connection.call(caller, Method::CancelTask, &params, CANCEL_TIMEOUT);
        let _ignored = timeout(CANCEL_TIMEOUT, cancelled).await;
    }
}

/// Context and task with which a conversation continues.
#[derive(Debug, Default)]
struct ConversationIds {
    context: Option<String>,
    /// Task that waits for input.
    task: Option<String>,
}

impl ConversationIds {
    /// Takes the ids from the last answer of this agent.
    fn from_messages(
        messages: &[Arc<ChatMessage>],
        name: &ModelName,
        connection: &Connection,
    ) -> Self {
        let seals = messages
            .iter()
            .rev()
            .filter_map(|message| match message.as_ref() {
                ChatMessage::Assistant(answer) => Some(&answer.reasoning),
                _ => None,
            });
        let mut own_seals = seals
            .flatten()
            .filter(|thought| thought.provider == PROVIDER)
            .filter_map(|thought| thought.seal.as_ref())
            .filter(|seal| {
                seal["agent"].as_str() == Some(&name.to_string())
                    && seal["url"].as_str() == Some(&connection.endpoint.interface.url)
            });
        let Some(seal) = own_seals.next() else {
            return Self::default();
        };
        Self {
            context: seal["context"].as_str().map(str::to_owned),
            task: seal["task"].as_str().map(str::to_owned),
        }
    }
}

fn read(value: &Value) -> Result<StreamResponse, CallError> {
    read_response(value).map_err(|error| CallError::Malformed(error.to_string()))
}

/// The last message: the user's request, or the user's answer to the agent.
fn last_message(request: &ChatRequest) -> String {
    let last = request
        .messages
        .iter()
        .rev()
        .find_map(|message| match message.as_ref() {
            ChatMessage::User { parts } => {
                let texts: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| match part {
                        UserPart::Text(text) => Some(text.as_str()),
                        UserPart::Image { .. } => None,
                    })
                    .collect();
                Some(texts.join("\n"))
            }
            ChatMessage::Tool { results } => {
                let answers: Vec<&str> =
                    results.iter().map(|result| result.content.trim()).collect();
                Some(answers.join("\n"))
            }
            ChatMessage::Assistant(_) => None,
        });
    last.unwrap_or_default()
}
