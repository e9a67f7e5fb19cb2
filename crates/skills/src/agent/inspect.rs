//! [`inspect`]: all that is wrong with the folder of a skill, by the standard and by this program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_domain::TreePath;
use cleveragents_domain::nearest;
use cleveragents_domain::yaml::Fault;
use cleveragents_sandbox::Root;
use cleveragents_tools::{About, Complaint, FileError};

use super::folder::{AgentSkill, FILES, Step};
use super::front_matter::{self, Content, Field, FrontMatter, Node, Place, at};
use super::name;
use crate::inside;

/// The largest `SKILL.md`.
const LARGEST: usize = 1 << 20;

/// The longest description and the longest word on compatibility.
const DESCRIPTION: usize = 1_024;
const COMPATIBILITY: usize = 500;

/// The fields of the standard.
const FIELDS: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
];

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

/// A complaint about a file that cannot be read as it should.
pub(super) fn complain(file: &Path, fault: Fault) -> FileError {
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
