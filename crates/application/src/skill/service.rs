//! [`SkillService`]: registers, finds, refreshes and removes skills.
//!
//! A skill is either registered or a subfolder of the folder of skills. A registered skill can be replaced only by a
//! valid skill.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::yaml::{self, Variables};
use cleveragents_domain::{DefinitionFileError, DefinitionKind, Name, nearest};
use cleveragents_sandbox::{Links, read_regular};
use cleveragents_skills::{Definition, FlattenedSkill, Library, agent, flatten};
use cleveragents_store::definitions::{self, StoredDefinition};
use cleveragents_store::{Engine, Reader};
use cleveragents_tools::Registry;
use serde_json::Value;

use super::error::SkillError;
use super::source::SkillSource;
use crate::definition::{DefinitionError, DefinitionService, DefinitionText, DefinitionType};
use crate::resource::{Outcome, Register};
use crate::tool::ToolService;

/// Origin of a known skill.
#[derive(Debug, Clone)]
pub enum SkillOrigin {
    Registered(StoredDefinition),
    /// The skill is in the folder of skills.
    Found(PathBuf),
}

/// A skill that is registered or in the folder of skills.
#[derive(Debug, Clone)]
pub struct KnownSkill {
    /// Full name.
    pub name: String,
    /// Registered row or folder.
    pub origin: SkillOrigin,
    /// The skill as parsed with the current variables.
    pub definition: Result<Definition, Box<DefinitionFileError>>,
}

impl KnownSkill {
    /// The file or folder of the skill.
    pub fn place(&self) -> String {
        match &self.origin {
            SkillOrigin::Registered(stored) => stored.source.clone(),
            SkillOrigin::Found(folder) => folder.display().to_string(),
        }
    }
}

/// A skill that was just registered.
#[derive(Debug)]
pub struct AddedSkill {
    /// The parsed skill.
    pub definition: Definition,
    /// The complete content of the skill, including that of included skills.
    pub flat: FlattenedSkill,
    /// The stored row.
    pub stored: StoredDefinition,
    /// Whether the skill is new or replaced another one.
    pub outcome: Outcome,
}

/// Result of a refresh for each skill.
#[derive(Debug, Default)]
pub struct RefreshReport {
    /// Skills that changed.
    pub refreshed: Vec<String>,
    /// Skills without changes.
    pub unchanged: Vec<String>,
    /// Invalid skills; their registered version remains.
    pub failed: Vec<(String, SkillError)>,
    /// Skills that could not be read, with the reason.
    pub skipped: Vec<(String, String)>,
}

/// Inputs for reading and validating skills.
#[derive(Clone, Copy)]
pub struct SkillReading<'a> {
    variables: Variables<'a>,
    /// The folder of skills: its subfolders are skills without registration.
    folder: &'a Path,
    /// The tools that skills can name.
    tools: &'a Registry,
}

impl DefinitionType for Definition {
    const KIND: DefinitionKind = DefinitionKind::Skill;
    type Reading<'a> = SkillReading<'a>;
    type Error = SkillError;

    fn read(
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        reading: SkillReading<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        let source = SkillSource::stored(text.text, text.source);
        source.read(reading.variables).map_err(Box::new)
    }

    fn schema() -> Value {
        cleveragents_skills::collection::schema()
    }

    fn name(&self) -> String {
        self.name().to_string()
    }

    fn check_new(
        &self,
        _: DefinitionText<'_>,
        registered: &[StoredDefinition],
        reading: SkillReading<'_>,
    ) -> Result<(), SkillError> {
        let known = all_known(registered, reading.folder, reading.variables);
        checked_content(self, &known, reading.tools).map(drop)
    }

    fn check_referrers(
        found: &StoredDefinition,
        registered: &[StoredDefinition],
        reading: SkillReading<'_>,
    ) -> Result<(), SkillError> {
        let known = all_known(registered, reading.folder, reading.variables);
        refuse_used(&found.name, skills_using(&found.name, &known))
    }

    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), SkillError> {
        let actors = definitions::list(reader, DefinitionKind::Actor)?;
        refuse_used(&found.name, actors_using(&found.name, &actors))
    }
}

fn refuse_used(name: &str, by: Vec<String>) -> Result<(), SkillError> {
    if by.is_empty() {
        return Ok(());
    }
    Err(DefinitionError::InUse {
        kind: DefinitionKind::Skill,
        name: name.to_owned(),
        by,
    }
    .into())
}

/// Manages skills.
#[derive(Clone)]
pub struct SkillService {
    definitions: DefinitionService<Definition>,
    folder: PathBuf,
}

impl SkillService {
    /// A service for a store and the folder of skills.
    pub const fn new(engine: Arc<Engine>, folder: PathBuf) -> Self {
        Self {
            definitions: DefinitionService::new(engine),
            folder,
        }
    }

    /// All skills, sorted by name. A registered skill takes precedence over a folder with the same name.
    pub fn known(&self, variables: Variables<'_>) -> Result<Vec<KnownSkill>, SkillError> {
        let stored = self.definitions.stored()?;
        Ok(all_known(&stored, &self.folder, variables))
    }

    fn reading<'a>(&'a self, variables: Variables<'a>, tools: &'a Registry) -> SkillReading<'a> {
        SkillReading {
            variables,
            folder: &self.folder,
            tools,
        }
    }

    /// Returns the skill with this name.
    pub fn find(&self, name: &str, variables: Variables<'_>) -> Result<KnownSkill, SkillError> {
        let mut known = self.known(variables)?;
        let index = position(&known, name)?;
        Ok(known.swap_remove(index))
    }

    /// The complete content of a skill, including that of included skills.
    pub fn flat(&self, name: &str, variables: Variables<'_>) -> Result<FlattenedSkill, SkillError> {
        let known = self.known(variables)?;
        let found = &known[position(&known, name)?];
        let definition = found.definition.as_ref().map_err(Clone::clone)?;
        let library = library(&known);
        let tools = self.tools(variables)?;
        Ok(flatten(definition.name(), &library, &tools)?)
    }

    /// The complete content of each skill, or its error.
    pub fn flat_of_all(
        &self,
        known: &[KnownSkill],
        variables: Variables<'_>,
    ) -> Result<Vec<Result<FlattenedSkill, Box<DefinitionFileError>>>, SkillError> {
        let library = library(known);
        let tools = self.tools(variables)?;
        let flat = known.iter().map(|skill| match &skill.definition {
            Ok(definition) => flatten(definition.name(), &library, &tools).map_err(Box::new),
            Err(error) => Err(error.clone()),
        });
        Ok(flat.collect())
    }

    /// The tools that skills can name.
    pub(super) fn tools(&self, variables: Variables<'_>) -> Result<Registry, SkillError> {
        let tools = ToolService::new(Arc::clone(self.definitions.engine()));
        Ok(tools.registry(variables)?.registry)
    }

    /// Reads and validates a skill and everything that it refers to, without registering it.
    pub fn check(
        &self,
        source: &SkillSource,
        variables: Variables<'_>,
    ) -> Result<(Definition, FlattenedSkill), SkillError> {
        let definition = source.read(variables)?;
        let known = self.known(variables)?;
        let flat = checked_content(&definition, &known, &self.tools(variables)?)?;
        Ok((definition, flat))
    }

    /// Registers a skill.
    pub fn add(
        &self,
        source: &SkillSource,
        register: Register,
        variables: Variables<'_>,
    ) -> Result<AddedSkill, SkillError> {
        let (text, path) = source.text_and_path();
        let tools = self.tools(variables)?;
        let reading = self.reading(variables, &tools);
        let added = self.definitions.add(&text, &path, register, reading)?;
        Ok(AddedSkill {
            flat: self.flat(&added.stored.name, variables)?,
            definition: added.definition,
            stored: added.stored,
            outcome: added.outcome,
        })
    }

    /// The skills and actors that use a skill.
    pub fn used_by(&self, name: &str, variables: Variables<'_>) -> Result<Vec<String>, SkillError> {
        let mut users = skills_using(name, &self.known(variables)?);
        let actors = self
            .definitions
            .engine()
            .read(|reader| definitions::list(reader, DefinitionKind::Actor))?;
        users.extend(actors_using(name, &actors));
        Ok(users)
    }

    /// Removes a registered skill that nothing uses, even if it is invalid.
    pub fn remove(&self, name: &str, variables: Variables<'_>) -> Result<KnownSkill, SkillError> {
        let found = self.find(name, variables)?;
        if let SkillOrigin::Found(folder) = &found.origin {
            return Err(SkillError::Found {
                name: found.name,
                folder: folder.display().to_string(),
            });
        }
        let tools = self.tools(variables)?;
        let reading = self.reading(variables, &tools);
        self.definitions.remove(&found.name, reading)?;
        Ok(found)
    }

    /// Reads the files of one skill or of all skills again, and registers the changed ones.
    pub fn refresh(
        &self,
        name: Option<&str>,
        variables: Variables<'_>,
    ) -> Result<RefreshReport, SkillError> {
        let mut known = self.known(variables)?;
        if let Some(name) = name {
            known = vec![known.swap_remove(position(&known, name)?)];
        }
        let mut refreshed = RefreshReport::default();
        for skill in known {
            let name = skill.name.clone();
            match self.refresh_one(&skill, variables) {
                Ok(RefreshOutcome::Changed) => refreshed.refreshed.push(name),
                Ok(RefreshOutcome::Same) => refreshed.unchanged.push(name),
                Ok(RefreshOutcome::Skipped(why)) => refreshed.skipped.push((name, why)),
                Err(error @ SkillError::Store(_)) => return Err(error),
                Err(error) => refreshed.failed.push((name, error)),
            }
        }
        Ok(refreshed)
    }

    fn refresh_one(
        &self,
        skill: &KnownSkill,
        variables: Variables<'_>,
    ) -> Result<RefreshOutcome, SkillError> {
        let source = match &skill.origin {
            SkillOrigin::Found(folder) => SkillSource::Folder(folder.clone()),
            SkillOrigin::Registered(stored) => {
                SkillSource::stored(&stored.definition, &stored.source)
            }
        };
        let source = match source {
            SkillSource::Folder(folder) if !folder.is_dir() => {
                return Ok(RefreshOutcome::Skipped(format!(
                    "`{}` does not exist",
                    folder.display()
                )));
            }
            SkillSource::Folder(folder) => SkillSource::Folder(folder),
            SkillSource::File { file, text } => match read_again(&file) {
                Ok(current) if current == text => SkillSource::File { text, file },
                Ok(current) => {
                    return self.replace(
                        skill,
                        &SkillSource::File {
                            text: current,
                            file,
                        },
                        variables,
                    );
                }
                Err(error) => {
                    return Ok(RefreshOutcome::Skipped(format!(
                        "`{}` cannot be read: {error}",
                        file.display()
                    )));
                }
            },
        };
        self.check(&source, variables)?;
        Ok(RefreshOutcome::Same)
    }

    fn replace(
        &self,
        skill: &KnownSkill,
        source: &SkillSource,
        variables: Variables<'_>,
    ) -> Result<RefreshOutcome, SkillError> {
        let definition = source.read(variables)?;
        if definition.name().to_string() != skill.name {
            let why = format!(
                "its file now describes `{}`; add that skill, and remove this one",
                definition.name()
            );
            return Ok(RefreshOutcome::Skipped(why));
        }
        self.add(source, Register::Update, variables)?;
        Ok(RefreshOutcome::Changed)
    }
}

/// Result of reading a skill again.
enum RefreshOutcome {
    Changed,
    Same,
    Skipped(String),
}

/// The text of a skill's file.
fn read_again(file: &Path) -> std::io::Result<String> {
    const MAX_BYTES: u64 = 1 << 20;
    let bytes = read_regular(file, Links::Follow, MAX_BYTES)?;
    let bytes = bytes.ok_or(std::io::ErrorKind::NotFound)?;
    String::from_utf8(bytes).map_err(std::io::Error::other)
}

/// The registered skills and those in the folder of skills, by name.
fn all_known(
    registered: &[StoredDefinition],
    folder: &Path,
    variables: Variables<'_>,
) -> Vec<KnownSkill> {
    let read = |stored: &StoredDefinition| {
        let source = SkillSource::stored(&stored.definition, &stored.source);
        KnownSkill {
            name: stored.name.clone(),
            definition: source.read(variables).map_err(Box::new),
            origin: SkillOrigin::Registered(stored.clone()),
        }
    };
    let mut known: Vec<KnownSkill> = registered.iter().map(read).collect();
    // A folder that does not exist contains no skill.
    for folder in agent::find(folder).unwrap_or_default() {
        let definition = SkillSource::Folder(folder.clone()).read(variables);
        let name = if let Ok(definition) = &definition {
            definition.name().to_string()
        } else {
            let name = folder.file_name().unwrap_or_default();
            format!("local/{}", name.to_string_lossy())
        };
        if known.iter().all(|other| other.name != name) {
            known.push(KnownSkill {
                name,
                definition: definition.map_err(Box::new),
                origin: SkillOrigin::Found(folder),
            });
        }
    }
    known.sort_by(|left, right| left.name.cmp(&right.name));
    known
}

/// The complete content of a skill. Fails if the skill is invalid or would break a skill that includes it.
fn checked_content(
    definition: &Definition,
    known: &[KnownSkill],
    tools: &Registry,
) -> Result<FlattenedSkill, SkillError> {
    let name = definition.name();
    let before = library(known);
    let mut after = before.clone();
    after.insert(name.clone(), definition.clone());
    let flat = flatten(name, &after, tools)?;
    for other in after.keys().filter(|other| *other != name) {
        if flatten(other, &before, tools).is_ok() {
            flatten(other, &after, tools)?;
        }
    }
    Ok(flat)
}

/// The valid skills.
pub(super) fn library(known: &[KnownSkill]) -> Library {
    let readable = known
        .iter()
        .filter_map(|skill| skill.definition.as_ref().ok());
    readable
        .map(|definition| (definition.name().clone(), definition.clone()))
        .collect()
}

/// The index of a skill in `known`.
fn position(known: &[KnownSkill], name: &str) -> Result<usize, SkillError> {
    let full_name = name.trim().parse::<Name>().map(|name| name.to_string());
    let full_name = full_name.unwrap_or_else(|_| name.to_owned());
    let has_name = |skill: &KnownSkill| {
        // The name that an agent skill declares may be written in another script than its full name.
        let own = match &skill.definition {
            Ok(Definition::Agent(agent)) => Some(agent.name.as_str()),
            _ => None,
        };
        skill.name == full_name || own == Some(name)
    };
    known.iter().position(has_name).ok_or_else(|| {
        let names = known.iter().map(|skill| skill.name.as_str());
        DefinitionError::not_found::<Definition>(name, nearest::all(name, names, 3)).into()
    })
}

/// The skills that include a skill.
fn skills_using(name: &str, known: &[KnownSkill]) -> Vec<String> {
    let includes = |skill: &&KnownSkill| match &skill.definition {
        Ok(Definition::Collection(other)) => {
            let mut included = other.includes.iter();
            included.any(|include| include.skill.to_string() == name)
        }
        _ => false,
    };
    let users = known.iter().filter(includes);
    users.map(|skill| format!("skill {}", skill.name)).collect()
}

/// The actors that name a skill.
fn actors_using(name: &str, actors: &[StoredDefinition]) -> Vec<String> {
    let uses = |actor: &&StoredDefinition| {
        let text = yaml::read::<Value>(&actor.definition).unwrap_or_default();
        names_skill(&text, name)
    };
    let found = actors.iter().filter(uses);
    found.map(|actor| format!("actor {}", actor.name)).collect()
}

/// Whether the file of an actor has a skill in a list of `skills` or `tool_sources`.
fn names_skill(value: &Value, skill_name: &str) -> bool {
    let is_skill = |value: &Value| {
        let name = value.as_str().or_else(|| value.get("name")?.as_str());
        name.and_then(|name| name.parse::<Name>().ok())
            .is_some_and(|name| name.to_string() == skill_name)
    };
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let is_reference = |item: &Value| match key.as_str() {
                "skills" => is_skill(item),
                "tool_sources" => {
                    let kind = item.get("type").and_then(Value::as_str);
                    matches!(kind, Some("skill" | "agent_skill")) && is_skill(item)
                }
                _ => false,
            };
            let is_listed = value
                .as_array()
                .is_some_and(|items| items.iter().any(is_reference));
            is_listed || names_skill(value, skill_name)
        }),
        Value::Array(items) => items.iter().any(|item| names_skill(item, skill_name)),
        _ => false,
    }
}
