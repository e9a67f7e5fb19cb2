//! Commands, one module per group.

pub(crate) mod action;
pub(crate) mod actor;
pub(crate) mod audit;
pub(crate) mod automation;
pub(crate) mod chat;
pub(crate) mod cleanup;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod definition;
mod deletion;
pub(crate) mod demo;
pub(crate) mod diagnostics;
pub(crate) mod explain;
pub(crate) mod first_run;
pub(crate) mod help;
pub(crate) mod images;
pub(crate) mod init;
mod interactive;
pub(crate) mod invariant;
pub(crate) mod item;
mod item_source;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod permission;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod pool_work;
pub(crate) mod project;
pub(crate) mod resource;
pub(crate) mod run;
pub(crate) mod safety;
pub(crate) mod sandbox;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod signals;
pub(crate) mod skill;
pub(crate) mod system;
pub(crate) mod terminal;
mod text_editor;
pub(crate) mod token;
pub(crate) mod tool;
pub(crate) mod turn_view;
pub(crate) mod unfinished;
pub(crate) mod validation;

use std::io::{IsTerminal, Write};
use std::path::Path;

pub(crate) use cleveragents_application::counted;
use cleveragents_application::{read_text, read_text_file};
use cleveragents_domain::{Code, MicroUsd};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;
use serde_json::Value;

use crate::arguments::{
    Actor, ActorContext, Audit, AutomationProfile, Cleanup, Command, Config, Db, Mcp, Model,
    ModelKey, Permission, Plan, Project, Resource, ResourceType, Run, Safety, Server, Session,
    Token, Tool,
};
use crate::completion;
use crate::context::Context;
use crate::output::{Cell, CommandError, Report, Target, WriteMode};

pub(crate) use plan::lifecycle::worker_starter;
pub(crate) use safety::safety_in_force;

/// Full name of a command, with its group, as in the `command` field of the JSON output.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Demo(arguments) => demo::name(arguments),
        Command::Setup(_) => "setup",
        Command::Init(_) => "init",
        Command::Version => "version",
        Command::Info => "info",
        Command::Diagnostics(_) => "diagnostics",
        Command::Explain { .. } => "explain",
        Command::Help { .. } => "help",
        // Not used: `Invocation::parse` replaces a short form, such as `agents diff`, with its `plan` command.
        Command::Current(_) => "plan",
        Command::Completion { .. } => "completion",
        Command::Man { .. } => "man",
        Command::Config(Config::Get { .. }) => "config get",
        Command::Config(Config::Set { .. }) => "config set",
        Command::Config(Config::Unset { .. }) => "config unset",
        Command::Config(Config::List) => "config list",
        Command::Actor(Actor::Add { .. }) => "actor add",
        Command::Actor(Actor::List { .. }) => "actor list",
        Command::Actor(Actor::Show { .. }) => "actor show",
        Command::Actor(Actor::Update { .. }) => "actor update",
        Command::Actor(Actor::Remove { .. }) => "actor remove",
        Command::Actor(Actor::SetDefault { .. }) => "actor set-default",
        Command::Actor(Actor::Run(_)) => "actor run",
        Command::Actor(Actor::Graph { .. }) => "actor graph",
        Command::Actor(Actor::Context(ActorContext::List)) => "actor context list",
        Command::Actor(Actor::Context(ActorContext::Show { .. })) => "actor context show",
        Command::Actor(Actor::Context(ActorContext::Clear { .. })) => "actor context clear",
        Command::Actor(Actor::Context(ActorContext::Remove { .. })) => "actor context remove",
        Command::Actor(Actor::Context(ActorContext::Export { .. })) => "actor context export",
        Command::Actor(Actor::Context(ActorContext::Import { .. })) => "actor context import",
        Command::Mcp(Mcp::Add(_)) => "mcp add",
        Command::Mcp(Mcp::Import { .. }) => "mcp import",
        Command::Mcp(Mcp::List) => "mcp list",
        Command::Mcp(Mcp::Show { .. }) => "mcp show",
        Command::Mcp(Mcp::Test { .. }) => "mcp test",
        Command::Mcp(Mcp::Login { .. }) => "mcp login",
        Command::Mcp(Mcp::Remove { .. }) => "mcp remove",
        Command::Run(Run::List(_)) => "run list",
        Command::Run(Run::Show { .. }) => "run show",
        Command::Run(Run::Resume(_)) => "run resume",
        Command::Run(Run::Cancel { .. }) => "run cancel",
        Command::Run(Run::Replay { .. }) => "run replay",
        Command::Plan(Plan::Look(command)) => plan::name(command),
        Command::Plan(Plan::Work(command)) => plan::lifecycle::name(command),
        Command::Do(_) => "do",
        Command::Hunt(_) => "hunt",
        Command::Fix(_) => "fix",
        Command::Worker(_) => "worker",
        Command::Chat(_) => "chat",
        Command::Session(Session::Create(_)) => "session create",
        Command::Session(Session::List(_)) => "session list",
        Command::Session(Session::Show { .. }) => "session show",
        Command::Session(Session::Append(_)) => "session append",
        Command::Session(Session::Messages(_)) => "session messages",
        Command::Session(Session::Rename { .. }) => "session rename",
        Command::Session(Session::Delete { .. }) => "session delete",
        Command::Session(Session::Export(_)) => "session export",
        Command::Session(Session::Import(_)) => "session import",
        Command::Session(Session::Fork { .. }) => "session fork",
        Command::Session(Session::Search(_)) => "session search",
        Command::Session(Session::Tell(_)) => "session tell",
        Command::Session(Session::Compact(_)) => "session compact",
        Command::Resource(Resource::Add(_)) => "resource add",
        Command::Resource(Resource::List { .. }) => "resource list",
        Command::Resource(Resource::Show { .. }) => "resource show",
        Command::Resource(Resource::Inspect { .. }) => "resource inspect",
        Command::Resource(Resource::Tree { .. }) => "resource tree",
        Command::Resource(Resource::Remove { .. }) => "resource remove",
        Command::Resource(Resource::LinkChild { .. }) => "resource link-child",
        Command::Resource(Resource::UnlinkChild { .. }) => "resource unlink-child",
        Command::Resource(Resource::Type(ResourceType::Add { .. })) => "resource type add",
        Command::Resource(Resource::Type(ResourceType::List)) => "resource type list",
        Command::Resource(Resource::Type(ResourceType::Show { .. })) => "resource type show",
        Command::Resource(Resource::Type(ResourceType::Remove { .. })) => "resource type remove",
        Command::Project(Project::Create(_)) => "project create",
        Command::Project(Project::List) => "project list",
        Command::Project(Project::Show { .. }) => "project show",
        Command::Project(Project::Delete { .. }) => "project delete",
        Command::Project(Project::LinkResource { .. }) => "project link-resource",
        Command::Project(Project::UnlinkResource { .. }) => "project unlink-resource",
        Command::Action(command) => action::name(command),
        Command::Item(command) => item::name(command),
        Command::Pool(command) => pool::name(command),
        Command::Invariant(command) => invariant::name(command),
        Command::Sandbox(command) => sandbox::name(command),
        Command::Model(Model::List { .. }) => "model list",
        Command::Model(Model::Show { .. }) => "model show",
        Command::Model(Model::Test(_)) => "model test",
        Command::Model(Model::Key(ModelKey::Set { .. })) => "model key set",
        Command::Model(Model::Key(ModelKey::Remove { .. })) => "model key remove",
        Command::Skill(command) => skill::name(command),
        Command::Tool(Tool::Add { .. }) => "tool add",
        Command::Tool(Tool::List(_)) => "tool list",
        Command::Tool(Tool::Show { .. }) => "tool show",
        Command::Tool(Tool::Remove { .. }) => "tool remove",
        Command::Tool(Tool::Run(_)) => "tool run",
        Command::Tool(Tool::Calls(_)) => "tool calls",
        Command::Tool(Tool::Call(_)) => "tool call",
        Command::Permission(Permission::Add { .. }) => "permission add",
        Command::Permission(Permission::Allow { .. }) => "permission allow",
        Command::Permission(Permission::Ask { .. }) => "permission ask",
        Command::Permission(Permission::Deny { .. }) => "permission deny",
        Command::Permission(Permission::List) => "permission list",
        Command::Permission(Permission::Remove { .. }) => "permission remove",
        Command::Safety(Safety::List) => "safety list",
        Command::Safety(Safety::Show { .. }) => "safety show",
        Command::Validation(command) => validation::name(command),
        Command::AutomationProfile(AutomationProfile::Add { .. }) => "automation-profile add",
        Command::AutomationProfile(AutomationProfile::List { .. }) => "automation-profile list",
        Command::AutomationProfile(AutomationProfile::Show { .. }) => "automation-profile show",
        Command::AutomationProfile(AutomationProfile::Remove { .. }) => "automation-profile remove",
        Command::Schema { .. } => "schema",
        Command::Serve(_) => "serve",
        Command::Server(Server::Connect(_)) => "server connect",
        Command::Server(Server::Disconnect) => "server disconnect",
        Command::Server(Server::Status) => "server status",
        Command::Token(Token::Create(_)) => "token create",
        Command::Token(Token::List { .. }) => "token list",
        Command::Token(Token::Revoke { .. }) => "token revoke",
        Command::Audit(Audit::List(_)) => "audit list",
        Command::Audit(Audit::Verify { .. }) => "audit verify",
        Command::Db(Db::Status) => "db status",
        Command::Db(Db::Upgrade) => "db upgrade",
        Command::Db(Db::Check) => "db check",
        Command::Db(Db::Vacuum) => "db vacuum",
        Command::Cleanup {
            command: None | Some(Cleanup::Status),
        } => "cleanup status",
        Command::Cleanup {
            command: Some(Cleanup::Run { .. }),
        } => "cleanup run",
    }
}

/// Runs a command. `None` means that the command wrote a document to standard output itself.
pub(crate) fn run(
    context: &Context,
    command: Command,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    let report = match command {
        Command::Demo(arguments) => demo::run(context, &arguments)?,
        Command::Setup(arguments) => setup::run(context, &arguments)?,
        Command::Init(arguments) => init::run(context, &arguments)?,
        Command::Version => system::version(),
        Command::Info => system::info(context)?,
        Command::Diagnostics(arguments) => diagnostics::run(context, &arguments)?,
        Command::Explain { code } => explain::run(context, &code)?,
        Command::Help { all, command } => help::run(context.printer.canvas().1, all, &command)?,
        Command::Current(_) => {
            return Err(CommandError::internal("a short form was not expanded"));
        }
        Command::Config(command) => config::show(context, &command)?,
        Command::Actor(command) => return actor::run(context, command),
        Command::Mcp(command) => mcp::run(context, command)?,
        Command::Run(command) => run::run(context, command)?,
        Command::Plan(Plan::Look(command)) => plan::run(context, command)?,
        Command::Plan(Plan::Work(command)) => plan::lifecycle::run(context, *command)?,
        Command::Do(arguments) => plan::lifecycle::run_do(context, arguments)?,
        Command::Hunt(arguments) => pool_work::hunt(context, arguments)?,
        Command::Fix(arguments) => pool_work::fix(context, arguments)?,
        Command::Worker(arguments) => plan::lifecycle::run_worker(context, &arguments)?,
        Command::Chat(arguments) => chat::run(context, arguments)?,
        Command::Session(command) => return session::run(context, command, is_markdown),
        Command::Resource(command) => return resource::run(context, command),
        Command::Project(command) => project::run(context, command)?,
        Command::Action(command) => action::run(context, command)?,
        Command::Item(command) => item::run(context, command)?,
        Command::Pool(command) => pool::run(context, command)?,
        Command::Invariant(command) => invariant::run(context, command)?,
        Command::Sandbox(command) => return sandbox::run(context, command),
        Command::Model(command) => model::run(context, command)?,
        Command::Tool(command) => tool::run(context, command)?,
        Command::Skill(command) => skill::run(context, command)?,
        Command::Permission(command) => permission::run(context, &command)?,
        Command::Safety(command) => safety::run(context, &command)?,
        Command::Validation(command) => validation::run(context, command)?,
        Command::AutomationProfile(command) => automation::run(context, command)?,
        Command::Schema { of } => return schema::run(of).map(|()| None),
        Command::Server(command) => server::run(context, &command)?,
        Command::Token(command) => token::run(context, command)?,
        Command::Audit(command) => audit::run(context, command)?,
        Command::Serve(arguments) => crate::serve::run(context, &arguments)?,
        Command::Db(command) => db::run(context, &command)?,
        Command::Cleanup { command } => cleanup::run(context, &command.unwrap_or(Cleanup::Status))?,
        Command::Man { dir } => man::run(&context.absolute(&dir))?,
        Command::Completion { shell } => {
            return write_document(&completion::script(shell)).map(|()| None);
        }
    };
    Ok(Some(report))
}

/// Reads a definition file, `-` for standard input. `noun` names the file in errors; `too_long` is
/// the error code for an oversized file.
pub(crate) fn read_definition(
    path: &Path,
    noun: &str,
    too_long: Code,
) -> Result<String, CommandError> {
    Ok(if path == Path::new("-") {
        read_text(std::io::stdin().lock(), path, noun, too_long)?
    } else {
        read_text_file(path, noun, too_long)?
    })
}

/// Writes a document to standard output unchanged.
pub(crate) fn write_document(document: &[u8]) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(document).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritable(&error)),
        _ => Ok(()),
    }
}

/// Writes a document to a file and reports it.
pub(crate) fn write_and_report(
    report: Report,
    document: impl Into<Vec<u8>>,
    path: &Path,
) -> Result<Report, CommandError> {
    let target = Target {
        path: path.to_owned(),
        care: WriteMode::Plain,
    };
    let report = report.with_file(document, target);
    report.place_document()?;
    Ok(report)
}

/// Creates or overwrites a file with a document.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), CommandError> {
    std::fs::write(path, content).map_err(|error| {
        let message = format!("`{}` cannot be written", path.display());
        CommandError::new(Code::FileAccess, message)
            .caused_by(&error)
            .with_hint("check the path and its write permission")
    })
}

pub(crate) fn unwritable(error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, "standard output cannot be written")
        .caused_by(error)
        .with_hint("check the target of the output; acknowledged data is stored")
}

pub(crate) const fn yes_no(answer: bool) -> &'static str {
    if answer { "yes" } else { "no" }
}

/// Whether a user at the terminal can see a question and answer it.
pub(crate) fn can_confirm() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks the user for confirmation, unless `yes`.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), CommandError> {
    let refused = |message: &str| {
        Err(
            CommandError::new(Code::ConfirmationNeeded, message.to_owned())
                .with_hint("repeat the command with --yes"),
        )
    };
    if yes {
        return Ok(());
    }
    if !can_confirm() {
        return refused("confirmation needs a terminal");
    }
    // An installed handler keeps signals from ending the program: they cancel the question instead.
    let cancel = Cancel::new();
    let signals = signals::stop_on_signals(&cancel, &CancellationToken::new())?;
    let answer = terminal::ask(question, " [y/N]: ", &cancel);
    let is_confirmed =
        answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"));
    signals.conclude(if is_confirmed {
        Ok(())
    } else {
        refused("not confirmed; nothing changed")
    })
}

/// Cost for tables: a lower bound if the price of a used model is unknown.
pub(crate) fn cost_cell(cost: MicroUsd, is_known: bool) -> Cell {
    match (is_known, cost) {
        (true, cost) => cost.into(),
        (false, MicroUsd(0)) => Cell::Muted("unknown".to_owned()),
        (false, cost) => Cell::Text(format!("at least {}", Cell::Money(cost).text())),
    }
}

/// Sets a cost field of JSON data. An unknown cost is `null`; the known part is in a second field.
pub(crate) fn put_cost(data: &mut Value, field: &str, cost: MicroUsd, is_known: bool) {
    data[field] = is_known.then(|| cost.as_usd()).into();
    if !is_known {
        data["cost_known"] = false.into();
        data["cost_known_part"] = cost.as_usd().into();
    }
}
