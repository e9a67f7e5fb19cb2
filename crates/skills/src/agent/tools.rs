//! The tools through which a model uses agent skills: `skill/activate`, `skill/read` and `skill/run`.
//!
//! A script runs like every other command: through the gate, confined to the sandbox, with a time limit. It can read
//! the folder of its skill but not write there.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{FileKind, FileMode, MicroUsd, TreePath, nearest};
use cleveragents_tools::ports::Command;
use cleveragents_tools::run_command::{Streams, check_ending, exec};
use cleveragents_tools::{
    Access, Answer, Call, Capability, Category, DEFAULT_TIMEOUT, Failure, Permit, PrepareContext,
    PrepareError, PreparedCall, Source, Subject, Tool, ToolName, ToolSpec, TouchedPaths,
    WorkspaceNeed,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::folder::AgentSkill;
use crate::scoped_file;

/// Maximum size of returned instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 64 << 10;

/// Maximum size of a file that `skill/read` returns, in bytes.
const MAX_FILE: usize = 1 << 20;

/// Timeout of `skill/activate` and `skill/read`.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Interpreters for scripts, by file extension.
const INTERPRETERS: [(&str, &str, &[&str]); 6] = [
    // `-B` writes no bytecode next to the script, and `-s` loads no user modules.
    ("py", "python3", &["-B", "-s"]),
    ("sh", "sh", &[]),
    ("bash", "bash", &["--noprofile", "--norc"]),
    ("js", "node", &[]),
    ("rb", "ruby", &[]),
    ("pl", "perl", &[]),
];

/// Creates the tools for these skills: none without skills, and no `skill/run` if no skill has scripts.
pub fn tools(skills: &[AgentSkill]) -> Vec<Arc<dyn Tool>> {
    if skills.is_empty() {
        return Vec::new();
    }
    let shared: Arc<[AgentSkill]> = skills.into();
    let has_scripts = skills.iter().any(AgentSkill::has_scripts);
    let kinds = [Kind::Activate, Kind::Read, Kind::Run];
    let offered = kinds
        .into_iter()
        .filter(|kind| *kind != Kind::Run || has_scripts);
    offered
        .map(|kind| {
            Arc::new(SkillTool {
                spec: kind.spec(),
                kind,
                skills: Arc::clone(&shared),
            }) as Arc<dyn Tool>
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Activate,
    Read,
    Run,
}

impl Kind {
    fn spec(self) -> ToolSpec {
        let skill = json!({"type": "string", "description": "Name of the skill."});
        let (name, about, properties, required) = match self {
            Self::Activate => (
                "activate",
                "Returns the instructions of an installed skill and the list of its files.",
                json!({"name": skill}),
                json!(["name"]),
            ),
            Self::Read => (
                "read",
                "Reads a file of a skill, such as one in `references/`.",
                json!({"name": skill, "path": {"type": "string",
                    "description": "Path of the file, relative to the folder of the skill."}}),
                json!(["name", "path"]),
            ),
            Self::Run => (
                "run",
                "Runs a script of a skill in the sandbox and returns its output.",
                json!({
                    "name": skill,
                    "script": {"type": "string", "description": "Path of the script, such as scripts/check.py."},
                    "arguments": {"type": "array", "items": {"type": "string"},
                        "description": "Arguments of the script."},
                    "input": {"type": "string", "description": "Standard input of the script."},
                }),
                json!(["name", "script"]),
            ),
        };
        let is_run = self == Self::Run;
        ToolSpec {
            name: format!("{}/{name}", ToolName::SKILL)
                .parse()
                .expect("the names of these tools are valid, as a test verifies"),
            description: about.to_owned(),
            source: Source::AgentSkill,
            category: Category::External,
            workspace_need: if is_run {
                WorkspaceNeed::Required
            } else {
                WorkspaceNeed::None
            },
            input_schema: json!({"type": "object", "properties": properties, "required": required,
                "additionalProperties": false}),
            output_schema: None,
            capability: if is_run {
                Capability::writes("snapshot")
            } else {
                Capability::reads()
            },
            resources: Vec::new(),
            timeout: if is_run {
                DEFAULT_TIMEOUT
            } else {
                READ_TIMEOUT
            },
            cost: MicroUsd(0),
        }
    }
}

struct SkillTool {
    spec: ToolSpec,
    kind: Kind,
    skills: Arc<[AgentSkill]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkillCall {
    name: String,
    path: Option<String>,
    script: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    input: String,
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        arguments: Value,
        context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError> {
        let call: SkillCall = serde_json::from_value(arguments)
            .map_err(|error| PrepareError::Arguments(error.to_string()))?;
        let skill = self.find(&call.name)?;
        let file = call.path.as_ref().or(call.script.as_ref());
        let path = file.map(|path| path_of(path)).transpose()?;
        if self.kind == Kind::Run {
            if context.workspace.is_none() {
                return Err(PrepareError::NoWorkspace);
            }
            let is_script = path
                .as_ref()
                .is_some_and(|path| path.names().next() == Some(b"scripts"));
            if !is_script {
                return Err(PrepareError::Arguments(
                    "only files in `scripts/` can be run".to_owned(),
                ));
            }
        }
        Ok(Box::new(PreparedSkillCall {
            kind: self.kind,
            skill,
            path,
            arguments: call.arguments,
            input: call.input,
            timeout: self.spec.timeout,
        }))
    }
}

impl SkillTool {
    fn find(&self, name: &str) -> Result<&AgentSkill, PrepareError> {
        let matches_name =
            |skill: &&AgentSkill| skill.name == name || skill.registered.to_string() == name;
        self.skills.iter().find(matches_name).ok_or_else(|| {
            let known = self.skills.iter().map(|skill| skill.name.as_str());
            let suggestion = nearest::best(name, known)
                .map(|known| format!("; did you mean `{known}`?"))
                .unwrap_or_default();
            let name: String = name
                .chars()
                .filter(|letter| !letter.is_control())
                .take(80)
                .collect();
            PrepareError::Arguments(format!("skill `{name}` does not exist{suggestion}"))
        })
    }
}

/// Parses a path inside the folder of a skill. Refuses paths outside the folder.
fn path_of(given: &str) -> Result<TreePath, PrepareError> {
    let outside = |why: &str| PrepareError::BadPath {
        path: given.chars().take(300).collect(),
        why: why.to_owned(),
    };
    if given.starts_with(['/', '~']) || given.split('/').any(|name| name == "..") {
        return Err(outside("it is outside the folder of the skill"));
    }
    let names = given
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".");
    let names: Vec<&str> = names.collect();
    TreePath::from_bytes(names.join("/")).map_err(|error| outside(&error.to_string()))
}

struct PreparedSkillCall<'a> {
    kind: Kind,
    skill: &'a AgentSkill,
    path: Option<TreePath>,
    arguments: Vec<String>,
    input: String,
    timeout: Duration,
}

impl PreparedCall for PreparedSkillCall<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let target = match &self.path {
            Some(path) => format!("{}/{path}", self.skill.name),
            None => self.skill.name.clone(),
        };
        let arguments = self.arguments.iter().cloned().map(Subject::Text);
        std::iter::once(Subject::Text(target))
            .chain(arguments)
            .collect()
    }

    fn run(self: Box<Self>, _permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure> {
        match self.kind {
            Kind::Activate => self.activate(call),
            Kind::Read => self.read(call),
            Kind::Run => self.run_script(call),
        }
    }
}

impl PreparedSkillCall<'_> {
    fn activate(&self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        // The folder may have changed since the skill was registered.
        let skill = AgentSkill::read(&self.skill.folder)
            .map_err(|error| Failure::new(format!("the skill can no longer be read: {error}")))?;
        let end = skill.body.floor_char_boundary(MAX_INSTRUCTIONS);
        let is_cut = end < skill.body.len();
        call.output.text(&format!("Skill: {}\n", skill.name));
        if let Some(needs) = &skill.compatibility {
            call.output.text(&format!("Requirements: {needs}\n"));
        }
        for step in &skill.steps {
            call.output
                .text(&format!("Step {}: {}\n", step.number, step.text));
        }
        call.output.text(&format!("\n{}\n", &skill.body[..end]));
        let files = skill
            .files()
            .map_err(|error| self.failed("listing its files", &error))?;
        if !files.is_empty() {
            call.output.text("\nFiles:\n");
            for file in files {
                call.output.text(&format!("- {file}\n"));
            }
        }
        let note = is_cut.then(|| "The instructions are truncated.".to_owned());
        Ok(Answer::written().with_note(note))
    }

    fn read(&self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let path = self.path()?;
        let root = self
            .skill
            .root()
            .map_err(|error| self.failed("opening it", &error))?;
        let opened =
            scoped_file::open(&root, path).map_err(|error| self.failed("reading it", &error))?;
        let Some(opened) = opened else {
            return Err(self.missing(path));
        };
        let (bytes, is_cut) = scoped_file::read(opened, MAX_FILE)
            .map_err(|error| self.failed("reading it", &error))?;
        if bytes.contains(&0) {
            call.output.text("[binary file; not shown]");
            return Ok(Answer::written());
        }
        call.output.bytes(&bytes);
        let note = is_cut.then(|| format!("The file is truncated after {MAX_FILE} bytes."));
        Ok(Answer::written().with_note(note))
    }

    fn run_script(&self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let path = self.path()?;
        let root = self
            .skill
            .root()
            .map_err(|error| self.failed("opening it", &error))?;
        let stat = root
            .stat(path)
            .map_err(|error| self.failed("reading its metadata", &error))?;
        let mode = stat.and_then(|stat| stat.mode);
        if mode.map(FileMode::kind) != Some(FileKind::File) {
            return Err(self.missing(path));
        }
        let real_folder = std::fs::canonicalize(&self.skill.folder)
            .map_err(|error| self.failed("opening it", &error))?;
        let script = real_folder.join(path.as_path());
        let (program, mut arguments) = interpreter(path, script.into_os_string());
        arguments.extend(self.arguments.iter().map(OsString::from));
        let folder = self.skill.folder.clone().into_os_string();
        let command = Command {
            program,
            arguments,
            part: None,
            folder: None,
            environment: vec![("CLEVERAGENTS_SKILL_FOLDER".into(), folder)],
            input: self.input.clone().into_bytes(),
            time: call.time_left(),
            access: Access::Writes,
            network: false,
            readable: vec![real_folder],
        };
        let workspace = call.workspace()?;
        let finished = exec(workspace, &command, Streams::Together, call)
            .map_err(|error| Failure::from(error).touching(TouchedPaths::Anything))?;
        check_ending(&finished, self.timeout)?;
        Ok(Answer {
            touched: TouchedPaths::Anything,
            ..Answer::written()
        })
    }

    fn path(&self) -> Result<&TreePath, Failure> {
        self.path
            .as_ref()
            .ok_or_else(|| Failure::new("a path in the skill is required"))
    }

    fn failed(&self, action: &str, error: &std::io::Error) -> Failure {
        let path = self
            .path
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        Failure::new(format!(
            "{action} failed: `{}/{path}`: {error}",
            self.skill.name
        ))
    }

    fn missing(&self, path: &TreePath) -> Failure {
        let files = self.skill.files().unwrap_or_default();
        let suggestion = nearest::best(&path.to_string(), files.iter().map(String::as_str))
            .map(|file| format!("; did you mean `{file}`?"))
            .unwrap_or_default();
        Failure::new(format!(
            "the skill `{}` has no file `{path}`{suggestion}",
            self.skill.name
        ))
    }
}

/// The command that runs a script: the interpreter for its extension, otherwise the script itself.
fn interpreter(path: &TreePath, script: OsString) -> (OsString, Vec<OsString>) {
    let extension = path
        .as_path()
        .extension()
        .and_then(|extension| extension.to_str());
    let entry = INTERPRETERS
        .iter()
        .find(|(known, ..)| Some(*known) == extension);
    match entry {
        Some((_, program, options)) => {
            let options = options.iter().map(OsString::from);
            (OsString::from(program), options.chain([script]).collect())
        }
        None => (script, Vec::new()),
    }
}
