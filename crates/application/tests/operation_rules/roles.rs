//! Permissions of remote callers: every role requests every operation in its own namespace, in a foreign namespace and
//! in `local`. The results are a part of `docs/reference/permissions.md`; `CLEVERAGENTS_WRITE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cleveragents_application::{NewResource, Register, ResourceService, WorkItemService};
use cleveragents_domain::identity::{Caller, Permission, Role, Scope};
use cleveragents_domain::{
    Attachment, AttachmentId, Code, Diagnose as _, InvariantId, InvariantScope, NewWorkItem, RunId,
    Timestamp, WorkItemKind,
};
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_store::invariants::NewInvariant;
use cleveragents_store::runs::NewRun;
use cleveragents_store::{audit, invariants, runs, validations};
use cleveragents_testkit::plans;
use serde_json::{Value, json};

use crate::support::{TestOperations, caller, smallest_parameters, test_operations};

/// The kind of object that a parameter of an operation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The name of an object. The caller needs the permission of the operation in the namespace of the object.
    Name(&'static str),
    /// The name of an object that is only read or run.
    Read(&'static str),
    Session(&'static str),
    Plan(&'static str),
    Decision(&'static str),
    Run(&'static str),
    ResumedRun(&'static str),
    Invariant(&'static str),
    Attachment(&'static str),
    WorkItem(&'static str),
    /// The text of a definition.
    Definition(&'static str),
    /// A text that names no object.
    Document(&'static str),
    /// The text of an exported session.
    ExportedSession(&'static str),
    /// The namespace of a new object.
    NewIn(&'static str),
}

impl Part {
    const fn parameter(self) -> &'static str {
        match self {
            Self::Name(parameter)
            | Self::Read(parameter)
            | Self::Session(parameter)
            | Self::Plan(parameter)
            | Self::Decision(parameter)
            | Self::Run(parameter)
            | Self::ResumedRun(parameter)
            | Self::Invariant(parameter)
            | Self::Attachment(parameter)
            | Self::WorkItem(parameter)
            | Self::Definition(parameter)
            | Self::Document(parameter)
            | Self::ExportedSession(parameter)
            | Self::NewIn(parameter) => parameter,
        }
    }

    const fn has_id(self) -> bool {
        matches!(
            self,
            Self::Session(_)
                | Self::Plan(_)
                | Self::Decision(_)
                | Self::Run(_)
                | Self::ResumedRun(_)
                | Self::Invariant(_)
                | Self::Attachment(_)
                | Self::WorkItem(_)
        )
    }
}

/// Each operation with its command and the parameters that name objects.
const OPERATIONS: &[(&str, &str, &[Part])] = {
    use Part::{
        Attachment, Decision, Definition, Document, ExportedSession, Invariant, Name, NewIn, Plan,
        Read, ResumedRun, Run, Session, WorkItem,
    };
    &[
        (
            "session/create",
            "session create",
            &[NewIn("namespace"), Read("actor")],
        ),
        ("session/list", "session list", &[]),
        ("session/show", "session show", &[Session("reference")]),
        ("session/append", "session append", &[Session("reference")]),
        (
            "session/messages",
            "session messages",
            &[Session("reference")],
        ),
        ("session/rename", "session rename", &[Session("reference")]),
        ("session/delete", "session delete", &[Session("reference")]),
        ("session/fork", "session fork", &[Session("reference")]),
        ("session/search", "session search", &[Session("session")]),
        ("session/export", "session export", &[Session("reference")]),
        (
            "session/import",
            "session import",
            &[NewIn("namespace"), ExportedSession("text")],
        ),
        (
            "registry/project/create",
            "project create",
            &[Name("name"), Name("resources"), Read("invariant_actor")],
        ),
        ("registry/project/list", "project list", &[]),
        (
            "registry/project/show",
            "project show",
            &[Name("reference")],
        ),
        (
            "registry/project/delete",
            "project delete",
            &[Name("reference")],
        ),
        (
            "registry/project/link-resource",
            "project link-resource",
            &[Name("reference"), Name("resource")],
        ),
        (
            "registry/project/unlink-resource",
            "project unlink-resource",
            &[Name("reference"), Name("resource")],
        ),
        (
            "registry/resource/list",
            "resource list",
            &[Read("project")],
        ),
        (
            "registry/resource/show",
            "resource show",
            &[Name("reference")],
        ),
        (
            "registry/resource/inspect",
            "resource inspect",
            &[Name("reference")],
        ),
        (
            "registry/resource/tree",
            "resource tree",
            &[Name("reference")],
        ),
        (
            "registry/resource/link-child",
            "resource link-child",
            &[Name("parent"), Name("child")],
        ),
        (
            "registry/resource/unlink-child",
            "resource unlink-child",
            &[Name("parent"), Name("child")],
        ),
        (
            "registry/resource/remove",
            "resource remove",
            &[Name("reference")],
        ),
        ("registry/resource-type/list", "resource type list", &[]),
        ("registry/resource-type/show", "resource type show", &[]),
        (
            "registry/action/create",
            "action create",
            &[Definition("text")],
        ),
        ("registry/action/list", "action list", &[]),
        ("registry/action/show", "action show", &[Name("name")]),
        ("registry/action/archive", "action archive", &[Name("name")]),
        (
            "registry/invariant/add",
            "invariant add",
            &[Name("project"), Name("action"), Plan("plan")],
        ),
        (
            "registry/invariant/list",
            "invariant list",
            &[
                Read("project"),
                Read("action"),
                Plan("plan"),
                Invariant("id"),
            ],
        ),
        (
            "registry/invariant/remove",
            "invariant remove",
            &[Invariant("id")],
        ),
        (
            "registry/automation-profile/add",
            "automation-profile add",
            &[Definition("text")],
        ),
        (
            "registry/automation-profile/list",
            "automation-profile list",
            &[],
        ),
        (
            "registry/automation-profile/show",
            "automation-profile show",
            &[Read("name")],
        ),
        (
            "registry/automation-profile/remove",
            "automation-profile remove",
            &[Name("name")],
        ),
        ("registry/tool/add", "tool add", &[Definition("text")]),
        ("registry/tool/list", "tool list", &[]),
        ("registry/tool/show", "tool show", &[Read("name")]),
        ("registry/tool/remove", "tool remove", &[Name("name")]),
        ("tool/calls", "tool calls", &[Session("session")]),
        ("registry/skill/list", "skill list", &[]),
        ("registry/skill/show", "skill show", &[Name("name")]),
        ("registry/skill/tools", "skill tools", &[Name("name")]),
        ("registry/skill/remove", "skill remove", &[Name("name")]),
        (
            "registry/validation/add",
            "validation add",
            &[Definition("text")],
        ),
        ("registry/validation/list", "validation list", &[]),
        (
            "registry/validation/show",
            "validation show",
            &[Name("name")],
        ),
        (
            "registry/validation/remove",
            "validation remove",
            &[Name("name")],
        ),
        (
            "registry/validation/attach",
            "validation attach",
            &[
                Name("resource"),
                Read("validation"),
                Name("project"),
                Plan("plan"),
            ],
        ),
        (
            "registry/validation/attachments",
            "validation attachments",
            &[
                Name("resource"),
                Read("validation"),
                Read("project"),
                Plan("plan"),
            ],
        ),
        (
            "registry/validation/detach",
            "validation detach",
            &[Attachment("attachment")],
        ),
        ("registry/actor/add", "actor add", &[Definition("text")]),
        (
            "registry/actor/update",
            "actor update",
            &[Definition("text")],
        ),
        ("registry/actor/list", "actor list", &[]),
        ("registry/actor/show", "actor show", &[Name("name")]),
        ("registry/actor/graph", "actor graph", &[Name("name")]),
        ("registry/actor/remove", "actor remove", &[Name("name")]),
        ("run/list", "run list", &[Read("actor")]),
        ("run/show", "run show", &[Run("run")]),
        ("run/replay", "run replay", &[Run("run")]),
        ("run/cancel", "run cancel", &[Run("run")]),
        ("registry/model/list", "model list", &[]),
        ("registry/model/show", "model show", &[]),
        ("plan/list", "plan list", &[Read("project"), Read("action")]),
        ("plan/status", "plan status", &[Plan("reference")]),
        ("plan/show", "plan show", &[Plan("reference")]),
        ("plan/tree", "plan tree", &[Plan("reference")]),
        ("plan/explain", "plan explain", &[Decision("reference")]),
        ("plan/children", "plan children", &[Plan("reference")]),
        ("plan/conflicts", "plan conflicts", &[Plan("reference")]),
        ("plan/corrections", "plan corrections", &[Plan("reference")]),
        ("plan/errors", "plan errors", &[Plan("reference")]),
        ("plan/diff", "plan diff", &[Plan("reference")]),
        ("plan/artifacts", "plan artifacts", &[Plan("reference")]),
        ("plan/guard", "plan guard", &[Plan("reference")]),
        (
            "plan/limit-cost",
            "plan guard --max-cost",
            &[Plan("reference")],
        ),
        (
            "plan/checkpoint/list",
            "plan checkpoint list",
            &[Plan("reference")],
        ),
        (
            "plan/checkpoint/delete",
            "plan checkpoint delete",
            &[Plan("reference")],
        ),
        ("plan/log", "plan log", &[Plan("reference")]),
        ("plan/wait", "plan wait", &[Plan("reference")]),
        ("plan/cancel", "plan cancel", &[Plan("reference")]),
        ("plan/approve", "plan approve", &[Plan("reference")]),
        ("plan/reject", "plan reject", &[Plan("reference")]),
        ("plan/prompt", "plan prompt", &[Plan("reference")]),
        ("plan/resolve", "plan resolve", &[Plan("reference")]),
        ("plan/spawn", "plan spawn", &[Plan("reference")]),
        ("plan/correct", "plan correct", &[Decision("decision")]),
        (
            "plan/edit",
            "plan edit",
            &[Plan("reference"), Document("text")],
        ),
        ("plan/rollback", "plan rollback", &[Plan("reference")]),
        ("plan/redo", "plan redo", &[Plan("reference")]),
        ("plan/revert", "plan revert", &[Plan("reference")]),
        ("plan/undo", "plan undo", &[Plan("reference")]),
        (
            "plan/use",
            "plan use",
            &[
                Name("projects"),
                Read("action"),
                Read("automation_profile"),
                Read("model"),
                Read("strategy_actor"),
                Read("execution_actor"),
                Read("estimation_actor"),
                Read("review_actor"),
                Read("invariant_actor"),
            ],
        ),
        ("plan/execute", "plan execute", &[Plan("reference")]),
        ("item/add", "item add", &[Name("project")]),
        ("item/close", "item close", &[WorkItem("item")]),
        ("item/edit", "item edit", &[WorkItem("item")]),
        ("item/link", "item link", &[WorkItem("item")]),
        ("item/list", "item list", &[]),
        ("item/show", "item show", &[WorkItem("item")]),
        ("pool/add", "pool add", &[Definition("text")]),
        ("pool/drain", "pool drain", &[Name("name")]),
        ("pool/library", "pool library", &[]),
        ("pool/list", "pool list", &[]),
        ("pool/pause", "pool pause", &[Name("name")]),
        ("pool/plan", "pool plan", &[]),
        ("pool/remove", "pool remove", &[Name("name")]),
        ("pool/resume", "pool resume", &[Name("name")]),
        ("pool/show", "pool show", &[Name("name")]),
        ("pool/status", "pool status", &[]),
        ("pool/stop", "pool stop", &[Name("name")]),
        ("plan/resume", "plan resume", &[Plan("reference")]),
        ("plan/apply", "plan apply", &[Plan("reference")]),
        (
            "session/tell",
            "session tell",
            &[
                Session("session"),
                Name("project"),
                Read("actor"),
                Read("skill"),
                Read("mcp"),
            ],
        ),
        (
            "session/compact",
            "session compact",
            &[Session("session"), Read("actor")],
        ),
        (
            "actor/run",
            "actor run",
            &[
                Name("name"),
                Name("project"),
                Read("skill"),
                Read("mcp"),
                Read("tool"),
            ],
        ),
        ("run/resume", "run resume", &[ResumedRun("run")]),
        ("health/check", "version", &[]),
        ("diagnostics/run", "diagnostics", &[]),
        ("db/status", "db status", &[]),
        ("cleanup/status", "cleanup status", &[]),
    ]
};

/// An operation, the permission that it needs, and its parameters.
struct Row {
    name: String,
    command: &'static str,
    scope: Scope,
    permission: Permission,
    parts: Vec<Part>,
    is_everywhere: bool,
    /// The JSON schema of the parameters.
    schema: Value,
}

fn rows() -> Vec<Row> {
    let rows = cleveragents_application::operations().map(|entry| {
        let known = OPERATIONS.iter().find(|(name, _, _)| *name == entry.name);
        let (_, command, parts) =
            known.unwrap_or_else(|| panic!("add {} to OPERATIONS", entry.name));
        Row {
            name: entry.name.to_owned(),
            command,
            scope: entry.requirement.scope,
            permission: entry.requirement.permission,
            parts: parts.to_vec(),
            is_everywhere: entry.requirement.is_global,
            schema: (entry.request)().to_value(),
        }
    });
    rows.collect()
}

/// The heading of the part of `permissions.md` that this test writes.
const COMMANDS: &str = "\n## Commands of other machines\n";

#[derive(Debug, Clone, PartialEq, Eq)]
enum CommandResult {
    /// The operation ran, with any result.
    Ran,
    /// The operation is forbidden.
    Refused,
    /// The object does not exist for the caller.
    Absent,
    /// The request is invalid, so nothing was done.
    Malformed(String),
}

impl CommandResult {
    const fn shown(&self) -> &'static str {
        match self {
            Self::Ran => "yes",
            Self::Refused => "403",
            Self::Absent => "404",
            Self::Malformed(_) => "400",
        }
    }
}

/// Stores a plan whose projects are in a namespace.
fn plan(served: &TestOperations, namespace: &str) -> cleveragents_domain::PlanId {
    let mut new = plans::new_plan("a plan");
    for known in &mut new.inputs.projects {
        known.name = format!("{namespace}/shop");
    }
    plans::store(&served.engine, &new)
}

/// Creates an object for this call and returns the value of the parameter that names it.
fn create_object(served: &TestOperations, part: Part, namespace: &str) -> String {
    match part {
        Part::Name(_) | Part::Read(_) => format!("{namespace}/thing"),
        Part::NewIn(_) => namespace.to_owned(),
        Part::Definition(_) => format!("name: {namespace}/thing\n"),
        Part::Document(_) => "# Strategy\n".to_owned(),
        Part::ExportedSession(_) => json!({"actor_name": format!("{namespace}/thing")}).to_string(),
        Part::Session(_) => {
            let local_caller = Caller::local("ada");
            let made = served.run(
                &local_caller,
                "session/create",
                &json!({"namespace": namespace}),
            );
            let made = made.expect("a session");
            made["session"]["id"].as_str().expect("an id").to_owned()
        }
        Part::Plan(_) => plan(served, namespace).to_string(),
        Part::Decision(_) => {
            let plan = plan(served, namespace);
            plans::store_example_strategy(&served.engine, plan)
                .work
                .to_string()
        }
        Part::Invariant(_) => {
            let id = InvariantId::generate();
            let new = NewInvariant {
                id,
                text: format!("Nothing breaks {id}"),
                scope: InvariantScope::Action,
                source_name: Some(format!("{namespace}/thing")),
                non_overridable: false,
            };
            plans::write(&served.engine, move |unit| invariants::insert(unit, &new));
            id.to_string()
        }
        Part::Attachment(_) => {
            let folder = served.folder.path().display().to_string();
            let resource = NewResource {
                type_name: "fs-directory".to_owned(),
                name: format!("{namespace}/ground"),
                values: [("path".to_owned(), folder)].into(),
                description: None,
                read_only: true,
                base: "/".into(),
            };
            let resources = ResourceService::new(Arc::clone(&served.engine));
            let made = resources.add(&resource, Register::Update);
            let id = AttachmentId::generate();
            let new = Attachment {
                id,
                validation: format!("{namespace}/{}", id.to_string().to_lowercase()),
                resource: made.expect("a resource").resource.id,
                project: None,
                plan: None,
                arguments: json!({}),
                created_at: Timestamp::now(),
            };
            plans::write(&served.engine, move |unit| {
                definitions::insert(
                    unit,
                    DefinitionKind::Validation,
                    &new.validation,
                    "{}",
                    "a test",
                )?;
                validations::attach(unit, &new)
            });
            id.to_string()
        }
        Part::WorkItem(_) => {
            let new = NewWorkItem::new(format!("{namespace}/thing"), WorkItemKind::Bug, "a defect");
            let items = WorkItemService::new(Arc::clone(&served.engine));
            items.add(new, Vec::new()).expect("an item").id.to_string()
        }
        Part::Run(_) | Part::ResumedRun(_) => {
            let new = NewRun {
                id: RunId::generate(),
                namespace: namespace.to_owned(),
                actor: format!("{namespace}/thing"),
                actor_hash: "0".repeat(64),
                definitions: json!({}),
                input: json!({}),
                options: json!({}),
            };
            let id = new.id;
            plans::write(&served.engine, move |unit| runs::insert(unit, &new));
            id.to_string()
        }
    }
}

/// Parameters of a call whose objects are in a namespace: all required ones, and the one that names the main object.
fn parameters(served: &TestOperations, row: &Row, namespace: &str) -> Value {
    let mut all = smallest_parameters(&row.name, &row.schema);
    let given = all.as_object().expect("an object").clone();
    let mut has_target = false;
    for part in &row.parts {
        let name = part.parameter();
        let is_target = !matches!(part, Part::Read(_)) && !has_target;
        if !given.contains_key(name) && !is_target {
            continue;
        }
        has_target |= is_target;
        let value = create_object(served, *part, namespace);
        all[name] = if row.schema["properties"][name]["type"] == "array" {
            json!([value])
        } else {
            json!(value)
        };
    }
    all
}

/// Runs an operation for a caller, and checks that a refusal is recorded in the audit log.
fn ask(served: &TestOperations, row: &Row, caller: &Caller, parameters: &Value) -> CommandResult {
    let denials = || {
        let kind = Some("access_denied".to_owned());
        let filter = audit::AuditFilter {
            kind,
            limit: 1_000_000,
            ..audit::AuditFilter::default()
        };
        let found = served.engine.read(|reader| audit::list(reader, &filter));
        found.expect("entries").len()
    };
    let before = denials();
    let ran = served.run(caller, &row.name, parameters);
    let code = ran
        .as_ref()
        .err()
        .map_or("", |failure| failure.code().as_str());
    let has_id = row.parts.iter().any(|part| part.has_id());
    let absent = [
        Code::SessionNotFound,
        Code::PlanNotFound,
        Code::DecisionNotFound,
        Code::RunNotFound,
        Code::InvariantNotFound,
        Code::AttachmentNotFound,
        Code::WorkItemNotFound,
    ];
    if code == Code::Forbidden.as_str() || code == Code::LocalOnly.as_str() {
        if code == Code::Forbidden.as_str() {
            assert!(
                denials() > before,
                "{}: the refusal was not recorded",
                row.name
            );
        }
        CommandResult::Refused
    } else if has_id && absent.iter().any(|known| known.as_str() == code) {
        CommandResult::Absent
    } else if code == Code::MalformedRequest.as_str() {
        CommandResult::Malformed(format!("{ran:?}"))
    } else {
        CommandResult::Ran
    }
}

/// The result of one operation for each role: in the caller's own namespace, in a foreign namespace and in `local`.
fn cells(served: &TestOperations, row: &Row) -> Vec<&'static str> {
    let is_list = names_nothing(served, row);
    let with = |role: Option<Role>, namespace: &str| match role {
        Some(role) => caller(&[&format!("{namespace}={role}")]),
        None => caller(&["elsewhere=owner"]),
    };
    let roles: Vec<Option<Role>> = std::iter::once(None)
        .chain(Role::ALL.iter().copied().map(Some))
        .collect();
    let own = if row.is_everywhere { "*" } else { "acme" };
    let mut cells = Vec::new();
    for role in &roles {
        let seen = ask(
            served,
            row,
            &with(*role, own),
            &parameters(served, row, "acme"),
        );
        let may = role.is_some_and(|role| role >= row.permission.least_role());
        if may || (is_list && !row.is_everywhere) {
            assert_eq!(seen, CommandResult::Ran, "{} as {role:?}", row.name);
        } else {
            let is_refused = matches!(seen, CommandResult::Refused | CommandResult::Absent);
            assert!(is_refused, "{} as {role:?}: {seen:?}", row.name);
            if role.is_some() {
                assert_eq!(seen, CommandResult::Refused, "{} as {role:?}", row.name);
            }
        }
        cells.push(seen.shown());
    }
    if row.is_everywhere {
        let seen = ask(
            served,
            row,
            &caller(&["acme=owner"]),
            &parameters(served, row, "acme"),
        );
        assert_eq!(
            seen,
            CommandResult::Refused,
            "{} with a role in one namespace",
            row.name
        );
    }
    if row.is_everywhere || is_list {
        cells.extend(["", ""]);
        return cells;
    }
    for namespace in ["other", "local"] {
        let mut last = CommandResult::Ran;
        for role in &roles {
            last = ask(
                served,
                row,
                &with(*role, "acme"),
                &parameters(served, row, namespace),
            );
            assert!(
                matches!(last, CommandResult::Refused | CommandResult::Absent),
                "{} as {role:?} in {namespace}: {last:?}",
                row.name
            );
        }
        cells.push(last.shown());
    }
    // Objects in `local` are visible to local callers only, whatever the role of a remote caller.
    let owner = caller(&["*=owner"]);
    let seen = ask(served, row, &owner, &parameters(served, row, "local"));
    assert!(
        matches!(seen, CommandResult::Refused | CommandResult::Absent),
        "{}: {seen:?}",
        row.name
    );
    let local_caller = Caller::local("ada");
    let seen = ask(
        served,
        row,
        &local_caller,
        &parameters(served, row, "local"),
    );
    assert_eq!(seen, CommandResult::Ran, "{} by the local caller", row.name);
    cells
}

/// Whether a call of the operation names no object, so that its response contains all objects that the caller may see.
fn names_nothing(served: &TestOperations, row: &Row) -> bool {
    let parameters = parameters(served, row, "acme");
    let mut names = row.parts.iter().map(|part| part.parameter());
    row.permission == Permission::Read && names.all(|name| parameters.get(name).is_none())
}

#[test]
fn every_role_runs_exactly_the_operations_in_its_table() {
    let served = test_operations();
    let mut rows = String::new();
    for row in &self::rows() {
        // A token for other scopes has no permission for the operation.
        let others = Scope::ALL
            .iter()
            .copied()
            .filter(|scope| *scope != row.scope);
        let grants = ["*=owner", "acme=owner"].map(|grant| grant.parse().expect("a grant"));
        let narrow = Caller::with_token("narrow", grants.to_vec(), others.collect());
        let seen = ask(&served, row, &narrow, &parameters(&served, row, "acme"));
        assert!(
            matches!(seen, CommandResult::Refused | CommandResult::Absent),
            "{} without its scope: {seen:?}",
            row.name
        );
        let cells = cells(&served, row).join(" | ");
        let (name, command, least) = (&row.name, row.command, row.permission.least_role());
        let place = if row.is_everywhere {
            "every namespace (`*`)"
        } else if names_nothing(&served, row) {
            "in any namespace; the response holds what the caller may see"
        } else {
            "in the namespaces that the request names"
        };
        let _written = writeln!(
            rows,
            "| `{name}` | `{command}` | {place} | {least} | {cells} |"
        );
    }
    assert_documented(&rows);
}

fn assert_documented(rows: &str) {
    let text = format!(
        "{COMMANDS}\n\
         Connected command lines, `/api/v1/operations/…` and the methods `_cleveragents/…` run the same operations. A \
         role counts in the namespace of each thing that a request names.\n\n\
         | Operation | Command | Where the role is needed | Lowest role | no role there | viewer | editor | admin | owner \
         | owner elsewhere | in `local` |\n|---|---|---|---|---|---|---|---|---|---|---|\n{rows}"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/permissions.md");
    let documented = std::fs::read_to_string(&file).unwrap_or_default();
    let at = documented.find(COMMANDS).unwrap_or(documented.len());
    let (others, ours) = documented.split_at(at);
    if std::env::var_os("CLEVERAGENTS_WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{others}{text}")).expect("the file is written");
        return;
    }
    assert!(
        ours == text,
        "docs/reference/permissions.md is out of date; CLEVERAGENTS_WRITE_DOCS=1 writes it:\n{text}"
    );
}
