//! [`CustomTool`]: a tool defined by the user, run as a child process in the sandbox.

use std::ffi::OsString;

use serde_json::Value;
use tempfile::TempDir;

use crate::capability::Access;
use crate::gate::Permit;
use crate::ports::{Command, Workspace};
use crate::run_command::{Streams, check_ending, exec};
use crate::spec::{Binding, Slot, ToolSpec};
use crate::tool::{
    Answer, Call, Failure, PrepareContext, PrepareError, PreparedCall, Subject, Tool, TouchedPaths,
};

/// Runs the code of a Python tool.
const DRIVER: &str = include_str!("driver.py");

/// The program of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program with arguments.
    Command {
        /// A path, or a name to search in PATH.
        program: OsString,
        /// Arguments of the program. It reads the arguments of the call from standard input.
        arguments: Vec<String>,
    },
    /// Source code in the file of the tool.
    Code {
        /// Determines the interpreter.
        language: Language,
        /// The source code.
        code: String,
    },
}

/// A supported language of `code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    names: &'static [&'static str],
    program: &'static str,
    options: &'static [&'static str],
    file: &'static str,
}

/// Supported languages; the first is the default.
pub(super) const LANGUAGES: [Language; 6] = [
    Language {
        names: &["python", "python3"],
        program: "python3",
        // Isolated mode: ignores the user's modules and environment variables.
        options: &["-I"],
        file: "tool.py",
    },
    Language {
        names: &["bash"],
        program: "bash",
        options: &["--noprofile", "--norc"],
        file: "tool.sh",
    },
    Language {
        names: &["sh"],
        program: "sh",
        options: &[],
        file: "tool.sh",
    },
    Language {
        names: &["javascript", "node"],
        program: "node",
        options: &[],
        file: "tool.js",
    },
    Language {
        names: &["ruby"],
        program: "ruby",
        options: &[],
        file: "tool.rb",
    },
    Language {
        names: &["perl"],
        program: "perl",
        options: &[],
        file: "tool.pl",
    },
];

impl Language {
    /// Primary name of the language.
    pub const fn name(&self) -> &'static str {
        self.names[0]
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    fn is_python(&self) -> bool {
        self.file == LANGUAGES[0].file
    }
}

/// A tool defined by the user.
#[derive(Debug, Clone)]
pub struct CustomTool {
    spec: ToolSpec,
    program: Program,
}

impl CustomTool {
    pub(super) const fn new(spec: ToolSpec, program: Program) -> Self {
        Self { spec, program }
    }

    pub const fn program(&self) -> &Program {
        &self.program
    }
}

impl Tool for CustomTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        arguments: Value,
        context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError> {
        let workspace = context.workspace.ok_or(PrepareError::NoWorkspace)?;
        let mut subjects = Vec::new();
        let mut environment = Vec::new();
        for slot in &self.spec.resources {
            let Some((alias, path)) = bind(slot, &arguments, workspace)? else {
                continue;
            };
            let name = format!("CLEVERAGENTS_RESOURCE_{}", slot.name.to_ascii_uppercase());
            environment.push((name.into(), path));
            subjects.push(Subject::Part {
                alias,
                access: slot.access,
            });
        }
        texts(&arguments, &mut subjects);
        Ok(Box::new(PreparedCustomCall {
            tool: self,
            arguments,
            subjects,
            environment,
        }))
    }
}

/// Finds the part that fills a slot and returns its alias and path.
fn bind(
    slot: &Slot,
    arguments: &Value,
    workspace: &dyn Workspace,
) -> Result<Option<(String, OsString)>, PrepareError> {
    let named = match slot.binding {
        Binding::Contextual => None,
        Binding::Static => slot.resource.as_deref(),
        Binding::Parameter => arguments.get(&slot.name).and_then(Value::as_str),
    };
    let part = workspace
        .bound(slot, named)
        .map_err(|error| PrepareError::Arguments(error.to_string()))?;
    match part {
        Some(part) if part.is_read_only && slot.access == Access::Writes => {
            Err(PrepareError::ReadOnlyPart(part.alias.clone()))
        }
        Some(part) => Ok(Some((part.alias.clone(), part.root.path().into()))),
        None if slot.required => {
            let (name, resource_type) = (&slot.name, &slot.resource_type);
            let named = named
                .map(|named| format!(" named `{named}`"))
                .unwrap_or_default();
            Err(PrepareError::Arguments(format!(
                "the sandbox has no part of the type `{resource_type}`{named} for the slot `{name}`"
            )))
        }
        None => Ok(None),
    }
}

/// Collects every text in the arguments as a subject, because permission rules may match any of them.
fn texts(value: &Value, subjects: &mut Vec<Subject>) {
    match value {
        Value::String(text) => subjects.push(Subject::Text(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, subjects)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, subjects)),
        _ => {}
    }
}

struct PreparedCustomCall<'a> {
    tool: &'a CustomTool,
    arguments: Value,
    subjects: Vec<Subject>,
    environment: Vec<(OsString, OsString)>,
}

impl PreparedCall for PreparedCustomCall<'_> {
    fn subjects(&self) -> Vec<Subject> {
        self.subjects.clone()
    }

    fn run(self: Box<Self>, _permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let access = self.tool.spec.capability.access;
        // The temporary directory is deleted after the call.
        let (program, arguments, files) = self.tool.program.write_code()?;
        let readable = files.iter().map(|folder| folder.path().to_owned());
        let time = call.time_left();
        let command = Command {
            program,
            arguments,
            part: None,
            folder: None,
            environment: self.environment,
            input: self.arguments.to_string().into_bytes(),
            time,
            access,
            network: false,
            readable: readable.collect(),
        };
        let touched = match access {
            Access::Writes => TouchedPaths::Anything,
            Access::Reads => TouchedPaths::Nothing,
        };
        let workspace = call.workspace()?;
        let finished = exec(workspace, &command, Streams::ErrorsAsLog, call)
            .map_err(|error| Failure::from(error).touching(touched.clone()))?;
        check_ending(&finished, self.tool.spec.timeout)
            .map_err(|failure| failure.touching(touched.clone()))?;
        Ok(Answer {
            touched,
            ..Answer::written()
        })
    }
}

impl Program {
    /// Writes the code to a temporary directory. Returns the program, its arguments, and the directory, which must
    /// outlive the process.
    fn write_code(&self) -> Result<(OsString, Vec<OsString>, Option<TempDir>), Failure> {
        match self {
            Self::Command { program, arguments } => {
                let arguments = arguments.iter().map(Into::into).collect();
                Ok((program.clone(), arguments, None))
            }
            Self::Code { language, code } => {
                let failed = |error: std::io::Error| {
                    Failure::new(format!(
                        "writing its code to a temporary file failed: {error}"
                    ))
                };
                let folder = tempfile::tempdir().map_err(failed)?;
                let write_file = |name: &str, text: &str| -> Result<OsString, Failure> {
                    let path = folder.path().join(name);
                    std::fs::write(&path, text).map_err(failed)?;
                    Ok(path.into_os_string())
                };
                let mut arguments: Vec<OsString> =
                    language.options.iter().map(Into::into).collect();
                if language.is_python() {
                    arguments.push(write_file("driver.py", DRIVER)?);
                }
                arguments.push(write_file(language.file, code)?);
                Ok((language.program.into(), arguments, Some(folder)))
            }
        }
    }
}
