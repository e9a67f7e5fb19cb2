//! `tool add`, `list` and `remove`.

use std::path::Path;
use std::time::Duration;

use cleveragents_application::{
    Outcome, Register, RegisteredTool, RegisteredValidation, ToolService, ValidationCheck,
    ValidationService,
};
use cleveragents_domain::{Code, ValidationMode};
use cleveragents_models::Redactor;
use cleveragents_tools::{Category, Registry, Source, ToolSpec};
use serde_json::{Value, json};

use super::{capability_json, capability_panel};
use crate::arguments::{ToolKind, ToolList, ToolSource};
use crate::commands::{confirm, counted, read_definition, removal};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn add(
    context: &Context,
    tools: &ToolService,
    config: &Path,
    update: bool,
) -> Result<Report, CommandError> {
    let text = read_definition(config, "the file of a tool", Code::MalformedTool)?;
    let file = context.source_of(config);
    let register = if update {
        Register::Update
    } else {
        Register::New
    };
    let added = tools
        .add(&text, &file, register, &context.variables())
        .map_err(|error| match CommandError::from(error) {
            error if error.code() == Code::ToolExists => {
                error.with_hint("choose another name, or repeat the command with --update")
            }
            error => error,
        })?;
    let spec = &added.spec;
    let secrets = context.models(None)?.redactor();
    let description = secrets.text(&spec.description).into_owned();
    Ok(Report::new("tool add")
        .data(json!({
            "tool_registered": {
                "name": spec.name,
                "description": description,
                "source": spec.source,
                "config": added.stored.source,
                "created": added.stored.created_at,
                "updated": added.stored.updated_at,
                "version": added.stored.version,
                "outcome": added.outcome,
            },
            "capability": capability_json(&spec.capability),
        }))
        .panel(
            Panel::new("Tool Registered")
                .row("Name", spec.name.to_string())
                .row("Description", description.clone())
                .row("Source", spec.source.as_str())
                .row("Config", added.stored.source.clone())
                .row("Timeout", Cell::Seconds(spec.timeout.as_secs_f64()))
                .row("Created", added.stored.created_at),
        )
        .panel(capability_panel(&spec.capability))
        .ok(match added.outcome {
            Outcome::Updated => "Tool updated",
            Outcome::Created | Outcome::Unchanged => "Tool registered",
        }))
}

/// A tool or validation in a list; one whose file cannot be read any more has a reason instead of facts.
struct Listed {
    name: String,
    kind: ToolKind,
    source: Source,
    category: Category,
    facts: Result<Facts, String>,
}

/// What a list says of a tool.
struct Facts {
    description: String,
    writes: bool,
    timeout: Option<Duration>,
    /// How much the verdict of a validation counts.
    mode: Option<ValidationMode>,
}

impl Facts {
    fn of_tool(spec: &ToolSpec, secrets: &Redactor) -> Self {
        Self {
            description: secrets.text(&spec.description).into_owned(),
            writes: spec.capability.is_writing(),
            timeout: Some(spec.timeout),
            mode: None,
        }
    }
}

impl Listed {
    fn built_in(spec: &ToolSpec, secrets: &Redactor) -> Self {
        Self {
            name: spec.name.to_string(),
            kind: ToolKind::Tool,
            source: spec.source,
            category: spec.category,
            facts: Ok(Facts::of_tool(spec, secrets)),
        }
    }

    fn registered(tool: RegisteredTool, secrets: &Redactor) -> Self {
        let facts = tool.spec.map(|spec| Facts::of_tool(&spec, secrets));
        let facts = facts.map_err(|error| secrets.text(&error.to_string()).into_owned());
        Self::own(tool.stored.name, ToolKind::Tool, facts)
    }

    /// A validation only looks, and one that wraps a tool has as much time as that.
    fn validation(registered: RegisteredValidation, secrets: &Redactor) -> Self {
        let facts = registered.validation.map(|validation| Facts {
            description: secrets.text(&validation.description).into_owned(),
            writes: false,
            timeout: match &validation.check {
                ValidationCheck::Command(check) => Some(check.timeout),
                ValidationCheck::Wraps(_) => None,
            },
            mode: Some(validation.mode),
        });
        let facts = facts.map_err(|error| secrets.text(&error.to_string()).into_owned());
        Self::own(registered.stored.name, ToolKind::Validation, facts)
    }

    const fn own(name: String, kind: ToolKind, facts: Result<Facts, String>) -> Self {
        Self {
            name,
            kind,
            source: Source::Custom,
            category: Category::Custom,
            facts,
        }
    }

    const fn kind(&self) -> &'static str {
        match self.kind {
            ToolKind::Tool => "tool",
            ToolKind::Validation => "validation",
        }
    }

    fn namespace(&self) -> &str {
        self.name
            .rsplit_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    fn fits(&self, filter: &ToolList) -> bool {
        let source = match filter.source {
            None => true,
            Some(ToolSource::Builtin) => self.source == Source::Builtin,
            Some(ToolSource::Custom) => self.source == Source::Custom,
        };
        let wanted = |wanted: &Option<String>, here: &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.trim_end_matches('/') == here)
        };
        source
            && filter.kind.is_none_or(|kind| kind == self.kind)
            && wanted(&filter.namespace, self.namespace())
            && wanted(&filter.category, self.category.as_str())
    }

    fn json(&self) -> Value {
        let facts = self.facts.as_ref().ok();
        json!({
            "name": self.name,
            "type": self.kind(),
            "mode": facts.and_then(|facts| facts.mode),
            "namespace": self.namespace(),
            "source": self.source,
            "category": self.category,
            "description": facts.map(|facts| &facts.description),
            "writes": facts.map(|facts| facts.writes),
            "timeout": facts.and_then(|facts| facts.timeout).map(|timeout| timeout.as_secs_f64()),
            "problem": self.facts.as_ref().err(),
        })
    }

    fn row(&self) -> Vec<Cell> {
        let (access, description) = match &self.facts {
            Ok(facts) if facts.writes => (Cell::Warn("writes".to_owned()), first_line(facts)),
            Ok(facts) => (Cell::Good("reads".to_owned()), first_line(facts)),
            Err(problem) => (Cell::Bad("broken".to_owned()), problem.as_str()),
        };
        let mode = self.facts.as_ref().ok().and_then(|facts| facts.mode);
        vec![
            self.name.as_str().into(),
            match mode {
                Some(mode) => format!("{} ({})", self.kind(), mode.as_str()).into(),
                None => self.kind().into(),
            },
            self.source.as_str().into(),
            self.category.as_str().into(),
            access,
            description.into(),
        ]
    }
}

fn first_line(facts: &Facts) -> &str {
    facts.description.lines().next().unwrap_or_default()
}

pub(super) fn list(
    context: &Context,
    tools: &ToolService,
    filter: &ToolList,
) -> Result<Report, CommandError> {
    let builtins = Registry::with_builtins();
    let secrets = context.models(None)?.redactor();
    let registered = tools.registered(&context.variables())?;
    let validations = ValidationService::new(context.engine()?).list(&context.variables())?;
    let mut listed: Vec<Listed> = builtins
        .list()
        .map(|spec| Listed::built_in(spec, &secrets))
        .chain(
            registered
                .into_iter()
                .filter(|tool| context.sees(&tool.stored.name))
                .map(|tool| Listed::registered(tool, &secrets)),
        )
        .chain(
            validations
                .into_iter()
                .filter(|validation| context.sees(&validation.stored.name))
                .map(|validation| Listed::validation(validation, &secrets)),
        )
        .filter(|tool| tool.fits(filter))
        .collect();
    listed.sort_by(|left, right| left.name.cmp(&right.name));
    let table = [
        "Name",
        "Type",
        "Source",
        "Category",
        "Access",
        "Description",
    ]
    .into_iter()
    .fold(Table::new("Tools"), |table, heading| {
        table.column(heading, Align::Left)
    })
    .empty("No tool matches")
    .rows(listed.iter().map(Listed::row));
    let (count, broken) = (
        listed.len(),
        listed.iter().filter(|tool| tool.facts.is_err()).count(),
    );
    let entries: Vec<Value> = listed.iter().map(Listed::json).collect();
    let report = Report::new("tool list")
        .data(json!({"tools": entries, "summary": {"total": count, "broken": broken}}))
        .table(table)
        .ok(format!("{} listed", counted(count, "tool")));
    Ok(if broken == 0 {
        report
    } else {
        report.warn(format!(
            "{} cannot be read any more and left out until mended or removed",
            counted(broken, "tool")
        ))
    })
}

pub(super) fn remove(
    context: &Context,
    tools: &ToolService,
    name: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let found = tools.find_stored(name)?;
    confirm(context, &format!("Remove tool {}?", found.name), yes)?;
    let removed = tools.remove(&found.name)?;
    Ok(removal("tool remove", "Tool", removed.name, removed.source))
}
