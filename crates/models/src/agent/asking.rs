//! [`Asking`]: one question to a remote agent, from the message that is sent to the answer, however the agent gives it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::answer::Answer;
use super::card::Version;
use super::line::{Events, Line, Method, Reply};
use super::told::{self, State, Told};
use super::trouble::Trouble;
use super::{ANSWER_BYTES, Inner, PROVIDER};
use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StopReason, StreamEvent, Usage};
use crate::generate::Outlet;
use crate::message::{AssistantMessage, ChatMessage, Reasoning, ToolCall, UserPart};
use crate::name::ModelName;
use crate::redact::Veil;
use crate::request::ChatRequest;

/// The tool that asks people, as models call it.
const ASK_USER: &str = "builtin_S_ask-user";

/// How long an agent may take to answer that it stopped.
const CANCEL: Duration = Duration::from_secs(5);

/// How often a task is looked at: at first, and when it takes long.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LATER_LOOK: Duration = Duration::from_secs(2);

/// How often in a row looking may fail.
const FAILED_LOOKS: u32 = 5;

type Outgoing = Outlet<Result<StreamEvent, ModelError>>;

/// One question to an agent.
pub(super) struct Asking<'a> {
    inner: &'a Inner,
    outlet: &'a Outgoing,
    veil: Veil,
    answer: Answer,
    is_noted: bool,
    /// How often the question was sent anew since its task had been cancelled.
    attempt: u64,
    key: String,
}

impl<'a> Asking<'a> {
    pub(super) fn new(inner: &'a Inner, outlet: &'a Outgoing, request: &ChatRequest) -> Self {
        let key = request
            .key
            .clone()
            .unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
        Self {
            inner,
            outlet,
            veil: Veil::new(inner.caller.redactor.clone()),
            answer: Answer::default(),
            is_noted: false,
            attempt: 0,
            key,
        }
    }

    pub(super) async fn ask(&mut self, request: &ChatRequest) -> Result<(), Trouble> {
        let line = self.inner.line().await?;
        let thread = Thread::of(&request.messages, &self.inner.caller.name, &line);
        if !self.find_again(request, &line).await? {
            self.answer = Answer::in_context(thread.context.clone());
            self.send(request, &line, &thread).await?;
        }
        self.follow(&line).await?;
        self.conclude(&line).await
    }

    /// Looks for the task of a question that was sent before. What was cancelled meanwhile, or forgotten there, is
    /// asked anew.
    async fn find_again(&mut self, request: &ChatRequest, line: &Line) -> Result<bool, Trouble> {
        let Some(note) = &request.noted else {
            return Ok(false);
        };
        if note["url"].as_str() != Some(&line.card.interface.url) {
            return Ok(false);
        }
        let Some(task) = note["task"].as_str() else {
            return Ok(false);
        };
        self.attempt = note["attempt"].as_u64().unwrap_or_default();
        let told = match self.look(line, task).await {
            Err(trouble) if trouble.is_unknown_task() => return Ok(false),
            told => told?,
        };
        if matches!(&told, Told::Task(task) if task.status.state == State::Canceled) {
            self.attempt += 1;
            return Ok(false);
        }
        self.is_noted = true;
        self.answer.task = Some(task.to_owned());
        self.hear(told).await?;
        Ok(true)
    }

    async fn send(
        &mut self,
        request: &ChatRequest,
        line: &Line,
        thread: &Thread,
    ) -> Result<(), Trouble> {
        let caller = &self.inner.caller;
        let version = line.card.interface.version;
        let id = match self.attempt {
            0 => self.key.clone(),
            attempt => format!("{}-{attempt}", self.key),
        };
        let message = told::message(
            version,
            &id,
            &last_said(request),
            thread.context.as_deref(),
            thread.task.as_deref(),
        );
        // Without waiting for the end: what the task is called is to be known as soon as it can be.
        let configuration = match version {
            Version::Current => json!({"returnImmediately": true}),
            Version::Old => json!({"blocking": false}),
        };
        let streams = line.card.streams;
        let params = if streams {
            json!({"message": message})
        } else {
            json!({"message": message, "configuration": configuration})
        };
        let mut number = 0;
        let reply = loop {
            let sent = if streams {
                line.listen(caller, Method::Stream, &params).await
            } else {
                let wait = caller.limits.first_byte;
                line.call(caller, Method::Send, &params, wait)
                    .await
                    .map(Reply::Whole)
            };
            match sent {
                Ok(reply) => break reply,
                Err(trouble) => {
                    let pause = caller.retry.pause(number, trouble.retry_after());
                    let Some(pause) = pause.filter(|_| trouble.was_not_taken()) else {
                        return Err(trouble);
                    };
                    sleep(pause).await;
                    number += 1;
                }
            }
        };
        self.answer.go_on();
        match reply {
            Reply::Whole(value) => self.hear(read(&value)?).await,
            Reply::Events(events) => self.hear_all(events).await,
        }
    }

    /// Hears a stream to its end. One that is cut is no failure once the task is known: it can be looked at.
    async fn hear_all(&mut self, mut events: Events) -> Result<(), Trouble> {
        loop {
            match events.next().await {
                Ok(Some(value)) => self.hear(read(&value)?).await?,
                Ok(None) => return Ok(()),
                Err(trouble) if trouble.is_passing() && self.answer.task.is_some() => return Ok(()),
                Err(trouble) => return Err(trouble),
            }
            if self.answer.is_over() {
                return Ok(());
            }
        }
    }

    /// Takes what was told, and hands on what is new of it.
    async fn hear(&mut self, told: Told) -> Result<(), Trouble> {
        let news = self.answer.take(told);
        let redactor = &self.inner.caller.redactor;
        // Ids are stored: an agent that puts the token into one is not listened to.
        let ids = [&self.answer.task, &self.answer.context];
        let is_secret = |id: &String| redactor.text(id) != id.as_str();
        if ids.into_iter().flatten().any(is_secret) {
            return Err(Trouble::Malformed("an id of it holds a secret".to_owned()));
        }
        if self.answer.len() > ANSWER_BYTES {
            return Err(Trouble::Large(ANSWER_BYTES));
        }
        if !self.is_noted
            && let Some(task) = &self.answer.task
            && let Some(url) = self.url()
        {
            self.is_noted = true;
            let note = json!({
                "url": url,
                "task": task,
                "context": self.answer.context,
                "attempt": self.attempt,
            });
            self.outlet.give(Ok(StreamEvent::Noted(note))).await;
        }
        if !news.thought.is_empty() {
            let thought = redactor.text(&news.thought).into_owned();
            self.outlet.give(Ok(StreamEvent::Reasoning(thought))).await;
        }
        let text = self.veil.push(&news.text);
        if !text.is_empty() {
            self.outlet.give(Ok(StreamEvent::Text(text))).await;
        }
        Ok(())
    }

    fn url(&self) -> Option<String> {
        let line = self.inner.line.lock();
        let line = line.unwrap_or_else(PoisonError::into_inner);
        line.as_ref().map(|line| line.card.interface.url.clone())
    }

    /// Waits until the task comes to an end, or asks something.
    async fn follow(&mut self, line: &Line) -> Result<(), Trouble> {
        let caller = &self.inner.caller;
        let (mut pause, mut failed) = (FIRST_LOOK, 0);
        let mut subscribes = line.card.streams;
        while !self.answer.is_over() {
            let Some(task) = self.answer.task.clone() else {
                let why = "it gave neither an answer nor a task";
                return Err(Trouble::Malformed(why.to_owned()));
            };
            // Once: an agent that cuts streams off is looked at instead.
            if std::mem::take(&mut subscribes) {
                let params = json!({"id": task});
                let heard = line.listen(caller, Method::Subscribe, &params).await;
                if let Ok(Reply::Events(events)) = heard {
                    self.hear_all(events).await?;
                    continue;
                }
            }
            match self.look(line, &task).await {
                Ok(told) => {
                    failed = 0;
                    self.hear(told).await?;
                }
                Err(trouble) if trouble.is_passing() && failed < FAILED_LOOKS => failed += 1,
                Err(trouble) => return Err(trouble),
            }
            if !self.answer.is_over() {
                sleep(pause).await;
                pause = (pause * 3 / 2).min(LATER_LOOK);
            }
        }
        Ok(())
    }

    async fn look(&self, line: &Line, task: &str) -> Result<Told, Trouble> {
        let caller = &self.inner.caller;
        let params = json!({"id": task, "historyLength": 0});
        let wait = caller.limits.first_byte;
        let value = line.call(caller, Method::Get, &params, wait).await?;
        read(&value)
    }

    /// Says what came of it.
    async fn conclude(&mut self, line: &Line) -> Result<(), Trouble> {
        let caller = &self.inner.caller;
        let redactor = &caller.redactor;
        let about = redactor.text(&self.answer.about).into_owned();
        let said = |otherwise: &str| match about.trim() {
            "" => otherwise.to_owned(),
            about => about.to_owned(),
        };
        let failed = |why: String, hint: &str| {
            ModelError::new(ErrorKind::Agent, &caller.name, why).with_hint(hint)
        };
        let error = match self.answer.state {
            None | Some(State::Completed | State::InputRequired | State::Working) => None,
            Some(State::Failed) => Some(failed(
                format!("the agent failed: {}", said("it does not say why")),
                "ask again, or ask whoever runs the agent",
            )),
            Some(State::Rejected) => Some(failed(
                format!("the agent rejected it: {}", said("it does not say why")),
                "ask for something that the agent does: its card tells its skills",
            )),
            Some(State::Canceled) => Some(failed(
                format!(
                    "the task was cancelled there: {}",
                    said("it does not say why")
                ),
                "ask again",
            )),
            Some(State::AuthRequired) => Some(failed(
                format!(
                    "the agent wants a login first: {}",
                    said("it does not say where")
                ),
                "give it what it wants, and ask again",
            )),
        };
        let rest = self.veil.finish();
        if !rest.is_empty() {
            self.outlet.give(Ok(StreamEvent::Text(rest))).await;
        }
        if let Some(error) = error {
            self.outlet.give(Err(error)).await;
            return Ok(());
        }
        let is_question = self.answer.state == Some(State::InputRequired);
        let question = said("The agent asks for more, and does not say what.");
        let completion = Completion {
            message: AssistantMessage {
                text: redactor.text(&self.answer.text()).into_owned(),
                reasoning: vec![self.seal(line, is_question)],
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

    /// What is kept with an answer, so that the conversation goes on.
    fn seal(&self, line: &Line, is_open: bool) -> Reasoning {
        let task = self.answer.task.as_ref().filter(|_| is_open);
        Reasoning {
            text: String::new(),
            provider: PROVIDER.to_owned(),
            seal: Some(json!({
                "agent": self.inner.caller.name,
                "url": line.card.interface.url,
                "context": self.answer.context,
                "task": task,
            })),
            after_text: 0,
            after_calls: 0,
        }
    }

    /// Stops the work there, if there is any. Whether that succeeds changes nothing here.
    pub(super) async fn cancel(&mut self) {
        let line = {
            let line = self.inner.line.lock();
            line.unwrap_or_else(PoisonError::into_inner).clone()
        };
        let (Some(line), Some(task)) = (line, &self.answer.task) else {
            return;
        };
        if self.answer.is_over() {
            return;
        }
        let params = json!({"id": task});
        let cancelled = line.call(&self.inner.caller, Method::Cancel, &params, CANCEL);
        let _ended_or_not = timeout(CANCEL, cancelled).await;
    }
}

/// Where a conversation with an agent stands.
#[derive(Debug, Default)]
struct Thread {
    context: Option<String>,
    /// The task that waits for an answer.
    task: Option<String>,
}

impl Thread {
    /// By the last answer that this agent gave.
    fn of(messages: &[Arc<ChatMessage>], name: &ModelName, line: &Line) -> Self {
        let seals = messages
            .iter()
            .rev()
            .filter_map(|message| match message.as_ref() {
                ChatMessage::Assistant(answer) => Some(&answer.reasoning),
                _ => None,
            });
        let mut own = seals
            .flatten()
            .filter(|thought| thought.provider == PROVIDER)
            .filter_map(|thought| thought.seal.as_ref())
            .filter(|seal| {
                seal["agent"].as_str() == Some(&name.to_string())
                    && seal["url"].as_str() == Some(&line.card.interface.url)
            });
        let Some(seal) = own.next() else {
            return Self::default();
        };
        Self {
            context: seal["context"].as_str().map(str::to_owned),
            task: seal["task"].as_str().map(str::to_owned),
        }
    }
}

fn read(value: &Value) -> Result<Told, Trouble> {
    told::read(value).map_err(Trouble::Malformed)
}

/// What was said last: the question, or what a person answered.
fn last_said(request: &ChatRequest) -> String {
    let said = request
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
    said.unwrap_or_default()
}
