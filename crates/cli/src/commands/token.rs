//! `token`: access tokens of a server.

use cleveragents_application::{NewToken, TokenService};
use cleveragents_domain::Timestamp;
use cleveragents_domain::identity::{Grant, Scope};
use cleveragents_store::tokens::Token;
use serde_json::{Value, json};

use super::counted;
use crate::arguments::{Token as Command, TokenCreate};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    let tokens = TokenService::new(context.engine()?);
    match command {
        Command::Create(arguments) => create(&tokens, &arguments),
        Command::List { all } => list(&tokens, all),
        Command::Revoke { token, rehearsal } => {
            let tokens = TokenService::new(rehearsal.engine(context)?);
            let token = tokens.revoke(&token)?;
            let done = format!(
                "The token {} is revoked; servers refuse it within a second",
                token.name
            );
            let report = Report::new("token revoke").data(json!({"revoked": token_json(&token)}));
            let report = if rehearsal.dry_run {
                report.panel(
                    Panel::new("Token")
                        .row("Name", token.name.clone())
                        .row("Roles", grants(&token).join(", ")),
                )
            } else {
                report
            };
            Ok(rehearsal.conclude(report, done))
        }
    }
}

fn token_json(token: &Token) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "grants": grants(token),
        "scopes": token.scopes,
        "created_by": token.created_by,
        "created": token.created_at,
        "expires": token.expires_at,
        "revoked": token.revoked_at,
        "last_used": token.last_used_at,
    })
}

fn grants(token: &Token) -> Vec<String> {
    token.grants.iter().map(Grant::to_string).collect()
}

fn create(tokens: &TokenService, arguments: &TokenCreate) -> Result<Report, CommandError> {
    let grants = arguments.grant.iter().map(|text| text.parse::<Grant>());
    let scopes = arguments.scope.iter().map(|text| text.parse::<Scope>());
    let created = tokens.create(NewToken {
        name: arguments.name.clone(),
        grants: grants.collect::<Result<_, _>>()?,
        scopes: scopes.collect::<Result<_, _>>()?,
        expires_at: arguments.expires.as_deref().map(parse_expiry).transpose()?,
    })?;
    let mut data = token_json(&created.token);
    data["token"] = json!(created.secret.reveal());
    Ok(Report::new("token create")
        .data(data)
        .panel(
            Panel::new("Token")
                .row("Name", created.token.name.clone())
                .row("Roles", self::grants(&created.token).join(", "))
                .row("Expires", created.token.expires_at.map(Cell::Time))
                .row("Secret", Cell::Warn(created.secret.reveal().to_owned())),
        )
        .ok("Token created")
        .info("save the secret now: it is not stored and not shown again"))
}

/// Parses the expiry of a token: a duration in days, hours or minutes from now, or a time.
fn parse_expiry(text: &str) -> Result<Timestamp, CommandError> {
    let seconds = text.char_indices().next_back().and_then(|(at, unit)| {
        let count: i64 = text[..at].parse().ok()?;
        let unit = match unit {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            _ => return None,
        };
        count
            .checked_mul(unit)
            .filter(|seconds| (0..=3_155_760_000).contains(seconds))
    });
    match seconds {
        Some(seconds) => Ok(Timestamp::now().plus_seconds(seconds)),
        None => text.parse::<Timestamp>().map_err(|error| {
            CommandError::usage(error.to_string())
                .with_hint("use for example 30d, 12h, 90m or 2027-01-31T12:00:00Z")
        }),
    }
}

fn list(tokens: &TokenService, all: bool) -> Result<Report, CommandError> {
    let listed = tokens.list(all)?;
    let now = Timestamp::now();
    let state = |token: &Token| {
        if token.revoked_at.is_some() {
            Cell::Bad("revoked".to_owned())
        } else if token.is_valid_at(now) {
            Cell::Good("valid".to_owned())
        } else {
            Cell::Warn("expired".to_owned())
        }
    };
    let table = Table::with_columns(
        "Tokens",
        [
            "Name",
            "Roles",
            "State",
            "Expires",
            "Last used",
            "Created by",
        ],
    )
    .empty("No tokens. Create one with `agents token create`")
    .rows(listed.iter().map(|token| {
        vec![
            token.name.as_str().into(),
            grants(token).join(", ").into(),
            state(token),
            token.expires_at.map(Cell::Time).into(),
            token.last_used_at.map(Cell::Time).into(),
            token.created_by.as_str().into(),
        ]
    }));
    let entries: Vec<Value> = listed.iter().map(token_json).collect();
    Ok(Report::new("token list")
        .data(json!({"tokens": entries, "summary": {"total": listed.len()}}))
        .table(table)
        .ok(format!("{} listed", counted(listed.len(), "token"))))
}
