//! [`AgentSkill`]: the folder of a skill, read and looked over.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::nearest;
use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{FileKind, FileMode, Name, TreePath};
use cleveragents_sandbox::Root;
use cleveragents_tools::{About, Complaint, FileError};

use super::front_matter::{self, Content, Field, FrontMatter, Node, Place, at};
use super::name;
use crate::inside;

/// The names under which the file of a skill is found; the first is the usual one.
const FILES: [&str; 2] = ["SKILL.md", "skill.md"];

/// The largest `SKILL.md`.
const LARGEST: usize = 1 << 20;

/// The longest description and the longest word on compatibility.
const DESCRIPTION: usize = 1_024;
const COMPATIBILITY: usize = 500;

/// So many files of a skill are listed.
const MOST_FILES: usize = 200;

/// The fields of the standard.
const FIELDS: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
];

/// A step that the front matter names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// What to do.
    pub text: String,
}

/// A folder with a `SKILL.md`.
#[derive(Debug, Clone)]
pub struct AgentSkill {
    /// What it calls itself.
    pub name: String,
    /// What it is registered under.
    pub registered: Name,
    /// What it does and when to use it.
    pub description: String,
    /// Its license, in its own words.
    pub license: Option<String>,
    /// What it needs, in its own words.
    pub compatibility: Option<String>,
    /// Whatever else it says of itself.
    pub metadata: BTreeMap<String, String>,
    /// The tools that it asks for. They are shown; they permit nothing.
    pub allowed_tools: Vec<String>,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Its instructions.
    pub body: String,
    /// Where it is.
    pub folder: PathBuf,
    /// What other readers of the standard would not accept.
    pub departures: Vec<FileError>,
}

/// What was found in a folder.
#[derive(Debug, Default)]
pub struct Inspected {
    /// The skill, when it can be used.
    pub skill: Option<AgentSkill>,
    /// Why it cannot.
    pub wrong: Vec<FileError>,
    /// What this program accepts and the standard does not.
    pub departures: Vec<FileError>,
}

impl Inspected {
    /// Whether the standard accepts the folder.
    pub fn is_standard(&self) -> bool {
        self.wrong.is_empty() && self.departures.is_empty()
    }
}

impl AgentSkill {
    /// Reads the skill of a folder; the first thing that is wrong is the error.
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        let inspected = inspect(folder);
        match (inspected.skill, inspected.wrong.into_iter().next()) {
            (Some(skill), None) => Ok(skill),
            (_, Some(error)) => Err(error),
            (None, None) => Err(complain(folder, Fault::new("there is no skill"))),
        }
    }

    /// Its folder, opened.
    pub(crate) fn root(&self) -> io::Result<Root> {
        Root::open(&self.folder)
    }

    /// Its files but for `SKILL.md`, as paths from its folder; links are not followed.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let root = self.root()?;
        let mut files = Vec::new();
        let mut folders: Vec<Option<TreePath>> = vec![None];
        while let Some(folder) = folders.pop() {
            for (name, stat) in root.entries(folder.as_ref())? {
                let path = match &folder {
                    Some(folder) => folder.join(&name),
                    None => TreePath::from_bytes(name),
                };
                let Ok(path) = path else { continue };
                match stat.mode.map(FileMode::kind) {
                    Some(FileKind::Directory) if path.depth() < 8 => folders.push(Some(path)),
                    Some(FileKind::File | FileKind::Symlink) => files.push(path.to_string()),
                    _ => {}
                }
            }
            if files.len() > MOST_FILES {
                break;
            }
        }
        files.retain(|file| !FILES.contains(&file.as_str()));
        files.sort();
        files.truncate(MOST_FILES);
        Ok(files)
    }

    /// Whether it has scripts to run.
    pub fn has_scripts(&self) -> bool {
        self.files()
            .is_ok_and(|files| files.iter().any(|file| file.starts_with("scripts/")))
    }
}

/// The folders of skills at a path: the path itself when it holds a `SKILL.md`, else the folders in
/// it that do, by name.
pub fn find(path: &Path) -> io::Result<Vec<PathBuf>> {
    let holds = |folder: &Path| FILES.iter().any(|file| folder.join(file).is_file());
    if holds(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let folder = entry?.path();
        if holds(&folder) {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}

fn complain(file: &Path, fault: Fault) -> FileError {
    Complaint::from(fault).in_file(file, About::Skill)
}

/// Reads the folder of a skill and says all that is wrong with it.
pub fn inspect(folder: &Path) -> Inspected {
    match read_file(folder) {
        Ok((file, text)) => Inspection::new(folder, file).inspect(&text),
        Err(error) => Inspected {
            wrong: vec![error],
            ..Inspected::default()
        },
    }
}

/// The text of the `SKILL.md` in a folder, and where that is.
fn read_file(folder: &Path) -> Result<(PathBuf, String), FileError> {
    let usual = folder.join(FILES[0]);
    let wrong =
        |file: &Path, message: String, fix: &str| complain(file, Fault::new(message).fixed_by(fix));
    let root = Root::open(folder).map_err(|error| {
        wrong(
            folder,
            format!("the folder cannot be opened: {error}"),
            "name a folder that holds a SKILL.md",
        )
    })?;
    for name in FILES {
        let path = TreePath::from_bytes(name).expect("a plain name is a path");
        let file = folder.join(name);
        let opened = inside::open(&root, &path).map_err(|error| {
            wrong(
                &file,
                format!("it cannot be opened: {error}"),
                "put the file itself there",
            )
        })?;
        let Some(opened) = opened else { continue };
        let (bytes, has_more) = inside::read(opened, LARGEST).map_err(|error| {
            wrong(
                &file,
                format!("it cannot be read: {error}"),
                "look at the file",
            )
        })?;
        if has_more {
            let message = format!("it is larger than {LARGEST} bytes");
            return Err(wrong(&file, message, "move most of it into `references/`"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count() as u64;
            complain(
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

/// The look at one folder.
struct Inspection<'f> {
    folder: &'f Path,
    file: PathBuf,
    found: Inspected,
}

impl<'f> Inspection<'f> {
    fn new(folder: &'f Path, file: PathBuf) -> Self {
        Self {
            folder,
            file,
            found: Inspected::default(),
        }
    }

    fn wrong(&mut self, place: Place, message: impl Into<String>, fix: &str) {
        let fault = at(place, message).fixed_by(fix);
        let error = Complaint::rule(fault, fix).in_file(&self.file, About::Skill);
        self.found.wrong.push(error);
    }

    fn departs(&mut self, fault: Fault) {
        self.found.departures.push(complain(&self.file, fault));
    }

    fn inspect(mut self, text: &str) -> Inspected {
        let plain = text.strip_prefix('\u{feff}');
        if plain.is_some() {
            self.departs(
                at((1, 1), "it begins with a byte order mark").fixed_by("save it without"),
            );
        }
        let text = plain.unwrap_or(text);
        let read = front_matter::cut(text)
            .and_then(|halves| Ok((front_matter::read(halves.front)?, halves.body)));
        match read {
            Ok((front, body)) => self.fields(front, body),
            Err(fault) => self.found.wrong.push(complain(&self.file, fault)),
        }
        self.found
    }

    fn fields(&mut self, front: FrontMatter, body: &str) {
        for fault in front.departures {
            self.departs(fault);
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
                    "leave it out, or put it into `metadata`; there are {}",
                    FIELDS.join(", ")
                ),
            };
            let message = format!("the standard has no field `{}`", field.name);
            self.departs(at(field.place, message).fixed_by(fix));
        }
        let value = |name: &str| {
            fields
                .iter()
                .find(|field| field.name == name)
                .map(|field| &field.value)
        };
        let name = self.name(value("name"));
        let description = self.required("description", value("description"), DESCRIPTION);
        let compatibility = value("compatibility")
            .and_then(|node| self.bounded("compatibility", node, COMPATIBILITY));
        let steps = value("steps").map(steps).unwrap_or_default();
        let (Some(name), Some(description)) = (name, description) else {
            return;
        };
        let Some(registered) = name::registered(&name) else {
            return;
        };
        if !self.found.wrong.is_empty() {
            return;
        }
        let metadata = match value("metadata").map(|node| &node.content) {
            Some(Content::Map(fields)) => fields.iter().map(entry).collect(),
            _ => BTreeMap::new(),
        };
        self.found.skill = Some(AgentSkill {
            name,
            registered,
            description: description.trim().to_owned(),
            license: value("license").map(Node::flat),
            compatibility,
            metadata,
            allowed_tools: value("allowed-tools").map(words).unwrap_or_default(),
            steps,
            body: body.to_owned(),
            folder: self.folder.to_owned(),
            departures: self.found.departures.clone(),
        });
    }

    fn name(&mut self, node: Option<&Node>) -> Option<String> {
        let text = self.required("name", node, usize::MAX)?;
        let place = node.map_or((1, 1), |node| node.place);
        let name = name::normal(&text);
        for (message, fix) in name::problems(&name) {
            self.wrong(place, message, fix);
        }
        let folder = folder_name(self.folder);
        if name::normal(&folder) != name {
            let message = format!("the folder is called `{folder}` and the skill `{name}`");
            self.wrong(place, message, "give both the same name");
        }
        Some(name)
    }

    fn required(&mut self, name: &str, node: Option<&Node>, most: usize) -> Option<String> {
        let Some(node) = node else {
            let fix = format!("add `{name}: …`");
            self.wrong((1, 1), format!("the field `{name}` is missing"), &fix);
            return None;
        };
        let text = self.bounded(name, node, most)?;
        if text.trim().is_empty() {
            self.wrong(
                node.place,
                format!("the field `{name}` is empty"),
                "write a text",
            );
            return None;
        }
        Some(text)
    }

    fn bounded(&mut self, name: &str, node: &Node, most: usize) -> Option<String> {
        let Some(text) = node.text() else {
            self.wrong(
                node.place,
                format!("the field `{name}` is not a text"),
                "write a single text",
            );
            return None;
        };
        let count = text.chars().count();
        if count > most {
            let message =
                format!("the field `{name}` has {count} characters, and {most} are the most");
            self.wrong(
                node.place,
                message,
                "shorten it; details belong into the text below",
            );
            return None;
        }
        Some(text.to_owned())
    }
}

/// What the folder is called, whatever way it was given.
fn folder_name(folder: &Path) -> String {
    let given = folder.file_name().map(ToOwned::to_owned);
    let real = || {
        std::fs::canonicalize(folder)
            .ok()?
            .file_name()
            .map(ToOwned::to_owned)
    };
    given
        .or_else(real)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn entry(field: &Field) -> (String, String) {
    (field.name.clone(), field.value.flat())
}

/// The names of tools in a text, between spaces or commas, or in a list.
fn words(node: &Node) -> Vec<String> {
    match &node.content {
        Content::List(items) => items.iter().map(Node::flat).collect(),
        _ => split_tools(&node.flat()),
    }
}

/// Splits at spaces and commas, but not inside parentheses, which hold patterns.
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
