//! `permission`: rules for all sessions and plans.

use cleveragents_application::{ProjectRules, ToolService, complete_rule};
use cleveragents_tools::{Effect, Registry, Rule};
use serde_json::{Value, json};

use super::counted;
use crate::arguments::{Permission, PermissionPattern};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: &Permission) -> Result<Report, CommandError> {
    let tools = ToolService::new(context.engine()?);
    match command {
        Permission::Add { rule } => add(&tools, "permission add", rule),
        Permission::Allow { pattern } => add_effect(&tools, Effect::Allow, pattern),
        Permission::Ask { pattern } => add_effect(&tools, Effect::Ask, pattern),
        Permission::Deny { pattern } => add_effect(&tools, Effect::Deny, pattern),
        Permission::List => list(context, &tools),
        Permission::Remove { rule, rehearsal } => {
            let tools = ToolService::new(rehearsal.engine(context)?);
            // Stored rules have normalized spaces.
            let normalized = complete_rule(rule).map(|rule| rule.to_string());
            let stored = normalized.unwrap_or_else(|_| rule.clone());
            tools.forget(&stored)?;
            let report = Report::new("permission remove")
                .data(json!({"removed": stored}))
                .panel(Panel::new("Permission Rule").row("Rule", stored));
            Ok(rehearsal.conclude(report, "Rule removed"))
        }
    }
}

fn add_effect(
    tools: &ToolService,
    effect: Effect,
    pattern: &PermissionPattern,
) -> Result<Report, CommandError> {
    let name = match effect {
        Effect::Allow => "permission allow",
        Effect::Ask => "permission ask",
        Effect::Deny => "permission deny",
    };
    let rule = format!("{} {}", effect.as_str(), pattern.pattern);
    add(tools, name, &rule)
}

fn add(tools: &ToolService, name: &'static str, rule: &str) -> Result<Report, CommandError> {
    let rule = complete_rule(rule)?;
    let is_new = tools.remember(&rule)?;
    let report = Report::new(name)
        .data(json!({"rule": rule_json(&rule.to_string()), "added": is_new}))
        .panel(
            Panel::new("Permission Rule")
                .row("Rule", rule.to_string())
                .row("Effect", effect_cell(rule.effect()))
                .row("Tools", rule.tool().to_string()),
        );
    let report = if is_new {
        report.ok("Rule added")
    } else {
        report.ok("Rule already exists")
    };
    // Warns about a rule that matches no tool: a `deny` rule with a misspelled tool would have no effect.
    Ok(if matches_a_tool(tools, &rule)? {
        report
    } else {
        report.warn(format!(
            "no tool matches `{}`; `agents tool list` shows all",
            rule.tool()
        ))
    })
}

fn matches_a_tool(tools: &ToolService, rule: &Rule) -> Result<bool, CommandError> {
    let builtins = Registry::with_builtins();
    if builtins.list().any(|spec| rule.tool().matches(&spec.name)) {
        return Ok(true);
    }
    let mut custom_tools = tools.stored()?.into_iter();
    Ok(custom_tools.any(|tool| {
        let name = tool.name.parse();
        name.is_ok_and(|name| rule.tool().matches(&name))
    }))
}

fn list(context: &Context, tools: &ToolService) -> Result<Report, CommandError> {
    let stored_rules = tools.stored_rules()?;
    let folder = context.environment.working_folder();
    let project = folder.map_or_else(|| Ok(ProjectRules::default()), ProjectRules::find)?;
    let mut table =
        Table::with_columns("Permission Rules", ["Effect", "Tools", "Rule"]).empty("No rules");
    for text in &stored_rules {
        table = table.row(match text.parse::<Rule>() {
            Ok(rule) => vec![
                effect_cell(rule.effect()),
                rule.tool().to_string().into(),
                text.as_str().into(),
            ],
            // Another version of the program stored the rule, and this version cannot parse it.
            Err(_) => vec![
                Cell::Bad("unknown".to_owned()),
                Cell::Muted(String::new()),
                text.as_str().into(),
            ],
        });
    }
    let rules: Vec<Value> = stored_rules.iter().map(|text| rule_json(text)).collect();
    let mut count = rules.len();
    let mut data = json!({"rules": rules, "summary": {"total": count}});
    let mut report = Report::new("permission list").table(table);
    if let Some(file) = &project.file {
        let title = "Rules Of This Project";
        let table = Table::with_columns(title, ["Effect", "Tools", "Rule", "Line"])
            .empty("No rules")
            .rows(project.rules.iter().map(|project| {
                let rule = &project.rule;
                vec![
                    effect_cell(rule.effect()),
                    rule.tool().to_string().into(),
                    rule.to_string().into(),
                    project.line.into(),
                ]
            }));
        report = report.table(table);
        count += project.rules.len();
        let rules: Vec<Value> = project
            .rules
            .iter()
            .map(|project| {
                let mut rule = rule_json(&project.rule.to_string());
                rule["line"] = project.line.into();
                rule
            })
            .collect();
        data["project"] = json!({"file": file, "rules": rules});
    }
    for warning in project.warnings() {
        report = report.warn(warning);
    }
    Ok(report
        .data(data)
        .ok(format!("{} listed", counted(count, "rule"))))
}

fn effect_cell(effect: Effect) -> Cell {
    let text = effect.as_str().to_owned();
    match effect {
        Effect::Allow => Cell::Good(text),
        Effect::Ask => Cell::Warn(text),
        Effect::Deny => Cell::Bad(text),
    }
}

fn rule_json(text: &str) -> Value {
    let rule = text.parse::<Rule>().ok();
    json!({
        "rule": text,
        "effect": rule.as_ref().map(|rule| rule.effect().as_str()),
        "tool": rule.as_ref().map(|rule| rule.tool().to_string()),
    })
}
