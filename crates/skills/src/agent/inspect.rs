//! [`inspect`]: finds all problems of a skill's folder: errors, and deviations from the standard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{
    DefinitionFault, DefinitionFileError, DefinitionKind, TreePath, nearest,
};
use cleveragents_sandbox::Root;

use super::folder::{AgentSkill, FILES, Step};
use super::front_matter::{self, Content, Field, FrontMatter, LineAndColumn, Node, at};
use super::name;
use crate::scoped_file;

/// Maximum size of a `SKILL.md`, in bytes.
const MAX_FILE_SIZE: usize = 1 << 20;

/// Maximum lengths of the description and of the compatibility text, in characters.
const MAX_DESCRIPTION: usize = 1_024;
const MAX_COMPATIBILITY: usize = 500;

/// Front matter fields that the standard defines.
const FIELDS: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
];

/// Result of inspecting a folder.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The skill, if it is usable.
    pub skill: Option<AgentSkill>,
    /// Problems that make the skill unusable.
    pub errors: Vec<DefinitionFileError>,
    /// Deviations from the standard that this program accepts.
    pub deviations: Vec<DefinitionFileError>,
}

impl Inspection {
    /// Whether the folder conforms to the standard.
    pub fn is_standard(&self) -> bool {
        self.errors.is_empty() && self.deviations.is_empty()
    }
}

/// Error for a malformed file.
pub(super) fn file_error(file: &Path, fault: Fault) -> DefinitionFileError {
    DefinitionFault::from(fault).in_file(file, DefinitionKind::Skill, "")
}

/// Parses the folder of a skill and reports all its problems.
pub fn inspect(folder: &Path) -> Inspection {
    match read_file(folder) {
        Ok((file, text)) => Inspector::new(folder, file).inspect(&text),
        Err(error) => Inspection {
            errors: vec![error],
            ..Inspection::default()
        },
    }
}

/// Reads the `SKILL.md` in a folder; returns its path and its text.
fn read_file(folder: &Path) -> Result<(PathBuf, String), DefinitionFileError> {
    let usual = folder.join(FILES[0]);
    let wrong = |file: &Path, message: String, fix: &str| {
        file_error(file, Fault::new(message).fixed_by(fix))
    };
    let root = Root::open(folder).map_err(|error| {
        wrong(
            folder,
            format!("the folder cannot be opened: {error}"),
            "name a folder that contains a SKILL.md",
        )
    })?;
    for name in FILES {
        let path = TreePath::from_bytes(name).expect("a plain name is a path");
        let file = folder.join(name);
        let opened = scoped_file::open(&root, &path).map_err(|error| {
            wrong(
                &file,
                format!("it cannot be opened: {error}"),
                "replace it by a regular file",
            )
        })?;
        let Some(opened) = opened else { continue };
        let (bytes, has_more) = scoped_file::read(opened, MAX_FILE_SIZE).map_err(|error| {
            wrong(
                &file,
                format!("it cannot be read: {error}"),
                "check the file",
            )
        })?;
        if has_more {
            let message = format!("it is larger than {MAX_FILE_SIZE} bytes");
            return Err(wrong(&file, message, "move most of it into `references/`"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count() as u64;
            file_error(
                &file,
                at((line, 1), "it is not UTF-8").fixed_by("save it as UTF-8"),
            )
        })?;
        return Ok((file, text));
    }
    Err(wrong(
        &usual,
        "there is no SKILL.md".to_owned(),
        "write one, with `name` and `description` in its front matter",
    ))
}

/// Collects the problems of a folder.
struct Inspector<'f> {
    folder: &'f Path,
    file: PathBuf,
    inspection: Inspection,
}

impl<'f> Inspector<'f> {
    fn new(folder: &'f Path, file: PathBuf) -> Self {
        Self {
            folder,
            file,
            inspection: Inspection::default(),
        }
    }

    fn add_error(&mut self, place: LineAndColumn, message: impl Into<String>, fix: &str) {
        let fault = at(place, message).fixed_by(fix);
        let error =
            DefinitionFault::rule(fault, fix).in_file(&self.file, DefinitionKind::Skill, "");
        self.inspection.errors.push(error);
    }

    fn add_deviation(&mut self, fault: Fault) {
        self.inspection
            .deviations
            .push(file_error(&self.file, fault));
    }

    fn inspect(mut self, text: &str) -> Inspection {
        let plain = text.strip_prefix('\u{feff}');
        if plain.is_some() {
            self.add_deviation(
                at((1, 1), "it starts with a byte order mark")
                    .fixed_by("save it without the byte order mark"),
            );
        }
        let text = plain.unwrap_or(text);
        let read = front_matter::cut(text)
            .and_then(|halves| Ok((front_matter::read(halves.front)?, halves.body)));
        match read {
            Ok((front, body)) => self.fields(front, body),
            Err(fault) => self.inspection.errors.push(file_error(&self.file, fault)),
        }
        self.inspection
    }

    fn fields(&mut self, front: FrontMatter, body: &str) {
        for fault in front.deviations {
            self.add_deviation(fault);
        }
        let fields = front.fields;
        let unknown = fields
            .iter()
            .filter(|field| !FIELDS.contains(&field.name.as_str()));
        for field in unknown {
            let near = nearest::best(&field.name, FIELDS.into_iter());
            let fix = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "remove it, or move it into `metadata`; the fields are {}",
                    FIELDS.join(", ")
                ),
            };
            let message = format!("the standard has no field `{}`", field.name);
            self.add_deviation(at(field.place, message).fixed_by(fix));
        }
        let value = |name: &str| {
            fields
                .iter()
                .find(|field| field.name == name)
                .map(|field| &field.value)
        };
        let name = self.name(value("name"));
        let description = self.required("description", value("description"), MAX_DESCRIPTION);
        let compatibility = value("compatibility")
            .and_then(|node| self.bounded("compatibility", node, MAX_COMPATIBILITY));
        let steps = value("steps").map(steps).unwrap_or_default();
        let (Some(name), Some(description)) = (name, description) else {
            return;
        };
        let Some(registered) = name::registered(&name) else {
            return;
        };
        if !self.inspection.errors.is_empty() {
            return;
        }
        let metadata = match value("metadata").map(|node| &node.content) {
            Some(Content::Map(fields)) => fields.iter().map(metadata_entry).collect(),
            _ => BTreeMap::new(),
        };
        self.inspection.skill = Some(AgentSkill {
            name,
            registered,
            description: description.trim().to_owned(),
            license: value("license").map(Node::flat),
            compatibility,
            metadata,
            allowed_tools: value("allowed-tools").map(tool_names).unwrap_or_default(),
            steps,
            body: body.to_owned(),
            folder: self.folder.to_owned(),
            deviations: self.inspection.deviations.clone(),
        });
    }

    fn name(&mut self, node: Option<&Node>) -> Option<String> {
        let text = self.required("name", node, usize::MAX)?;
        let place = node.map_or((1, 1), |node| node.place);
        let name = name::normal(&text);
        for (message, fix) in name::problems(&name) {
            self.add_error(place, message, fix);
        }
        let folder = folder_name(self.folder);
        if name::normal(&folder) != name {
            let message = format!("the folder is named `{folder}` but the skill `{name}`");
            self.add_error(place, message, "give both the same name");
        }
        Some(name)
    }

    fn required(&mut self, name: &str, node: Option<&Node>, max_length: usize) -> Option<String> {
        let Some(node) = node else {
            let fix = format!("add `{name}: …`");
            self.add_error((1, 1), format!("the field `{name}` is missing"), &fix);
            return None;
        };
        let text = self.bounded(name, node, max_length)?;
        if text.trim().is_empty() {
            self.add_error(
                node.place,
                format!("the field `{name}` is empty"),
                "write a text",
            );
            return None;
        }
        Some(text)
    }

    fn bounded(&mut self, name: &str, node: &Node, max_length: usize) -> Option<String> {
        let Some(text) = node.text() else {
            self.add_error(
                node.place,
                format!("the field `{name}` is not a text"),
                "write a single text",
            );
            return None;
        };
        let count = text.chars().count();
        if count > max_length {
            let message =
                format!("the field `{name}` has {count} characters; the maximum is {max_length}");
            self.add_error(
                node.place,
                message,
                "shorten it; move details into the text below",
            );
            return None;
        }
        Some(text.to_owned())
    }
}

/// Name of the folder, also for a path such as `.`.
fn folder_name(folder: &Path) -> String {
    let given = folder.file_name().map(ToOwned::to_owned);
    let canonical = || {
        std::fs::canonicalize(folder)
            .ok()?
            .file_name()
            .map(ToOwned::to_owned)
    };
    given
        .or_else(canonical)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn metadata_entry(field: &Field) -> (String, String) {
    (field.name.clone(), field.value.flat())
}

/// Names of tools: a list, or a text in which spaces or commas separate them.
fn tool_names(node: &Node) -> Vec<String> {
    match &node.content {
        Content::List(items) => items.iter().map(Node::flat).collect(),
        _ => split_tools(&node.flat()),
    }
}

/// Splits at spaces and commas, but not inside parentheses, which contain patterns.
fn split_tools(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(|letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter == ',' || letter.is_whitespace())
    });
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

fn steps(node: &Node) -> Vec<Step> {
    let Content::List(items) = &node.content else {
        return Vec::new();
    };
    let numbered = items.iter().enumerate();
    numbered
        .map(|(index, item)| Step {
            number: index + 1,
            text: item.flat(),
        })
        .collect()
}
