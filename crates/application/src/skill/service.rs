//! [`SkillService`]: registers, finds, refreshes and removes skills.
//!
//! Whether a skill may be added or removed depends on all others, so everything is read and checked
//! first, and the unit of work that writes refuses when another one was faster: then all is read
//! again. What is registered is replaced only by what was found to be sound.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::yaml::{self, Variables};
use cleveragents_domain::{Name, nearest};
use cleveragents_sandbox::{Links, read_regular};
use cleveragents_skills::{Definition, Flat, Library, agent, flatten};
use cleveragents_store::definitions::{self, DefinitionKind, StoredDefinition};
use cleveragents_store::{Engine, Reader, UnitOfWork};
use cleveragents_tools::{FileError, Registry};
use serde_json::Value;

use super::error::{SkillError, SkillUser};
use super::source::SkillSource;
use crate::resource::{Outcome, Register};
use crate::tool::ToolService;

/// Where a known skill comes from.
#[derive(Debug, Clone)]
pub enum SkillOrigin {
    /// It is registered.
    Registered(StoredDefinition),
    /// It lies in the folder of skills.
    Found(PathBuf),
}

/// A skill that is registered or found.
#[derive(Debug, Clone)]
pub struct KnownSkill {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: SkillOrigin,
    /// What it says now, with the variables of now.
    pub definition: Result<Definition, Box<FileError>>,
}

impl KnownSkill {
    /// Its file or folder.
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
    /// What it says.
    pub definition: Definition,
    /// All that it holds.
    pub flat: Flat,
    /// Its row.
    pub stored: StoredDefinition,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// What came of a refresh, skill by skill.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// Read again, and something had changed.
    pub refreshed: Vec<String>,
    /// Read again and found as they were.
    pub unchanged: Vec<String>,
    /// Found broken; what was registered before stays.
    pub failed: Vec<(String, SkillError)>,
    /// Could not be looked at, and why.
    pub skipped: Vec<(String, String)>,
}

/// Names and versions of what is stored: whoever writes checks that they are what was read.
type Seen = Vec<(String, u64)>;

/// Keeps skills.
#[derive(Clone)]
pub struct SkillService {
    engine: Arc<Engine>,
    /// The folder whose folders are skills without being registered.
    folder: PathBuf,
}

impl SkillService {
    /// A service over a store, and the folder of skills.
    pub const fn new(engine: Arc<Engine>, folder: PathBuf) -> Self {
        Self { engine, folder }
    }

    /// Every skill there is, by name. A registered one stands before a folder of the same name.
    pub fn known(&self, variables: Variables<'_>) -> Result<Vec<KnownSkill>, SkillError> {
        let (stored, _) = self.stored()?;
        Ok(self.all(stored, variables))
    }

    fn stored(&self) -> Result<(Vec<StoredDefinition>, Seen), SkillError> {
        let stored = self
            .engine
            .read(|reader| definitions::list(reader, DefinitionKind::Skill))?;
        let seen = seen(&stored);
        Ok((stored, seen))
    }

    fn all(&self, stored: Vec<StoredDefinition>, variables: Variables<'_>) -> Vec<KnownSkill> {
        let mut known: Vec<KnownSkill> = stored
            .into_iter()
            .map(|stored| {
                let source = SkillSource::stored(&stored.definition, &stored.source);
                KnownSkill {
                    name: stored.name.clone(),
                    definition: source.read(variables).map_err(Box::new),
                    origin: SkillOrigin::Registered(stored),
                }
            })
            .collect();
        // A folder that is not there holds no skill.
        for folder in agent::find(&self.folder).unwrap_or_default() {
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

    /// One skill, by its name.
    pub fn find(&self, name: &str, variables: Variables<'_>) -> Result<KnownSkill, SkillError> {
        let mut known = self.known(variables)?;
        let place = position(&known, name)?;
        Ok(known.swap_remove(place))
    }

    /// All that a skill holds.
    pub fn flat(&self, name: &str, variables: Variables<'_>) -> Result<Flat, SkillError> {
        let known = self.known(variables)?;
        let found = &known[position(&known, name)?];
        let definition = found.definition.as_ref().map_err(Clone::clone)?;
        let library = library(&known);
        let tools = self.tools(variables)?;
        Ok(flatten(definition.name(), &library, &tools)?)
    }

    /// All that every skill holds, or what is wrong with it.
    pub fn flat_of_all(
        &self,
        known: &[KnownSkill],
        variables: Variables<'_>,
    ) -> Result<Vec<Result<Flat, Box<FileError>>>, SkillError> {
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
        Ok(ToolService::new(Arc::clone(&self.engine))
            .registry(&variables)?
            .registry)
    }

    /// Reads a skill and everything that it refers to, and registers nothing.
    pub fn check(
        &self,
        source: &SkillSource,
        variables: Variables<'_>,
    ) -> Result<(Definition, Flat), SkillError> {
        let known = self.known(variables)?;
        self.checked(source, &known, variables)
    }

    fn checked(
        &self,
        source: &SkillSource,
        known: &[KnownSkill],
        variables: Variables<'_>,
    ) -> Result<(Definition, Flat), SkillError> {
        let definition = source.read(variables)?;
        let name = definition.name().clone();
        let tools = self.tools(variables)?;
        let before = library(known);
        let mut after = before.clone();
        after.insert(name.clone(), definition.clone());
        let flat = flatten(&name, &after, &tools)?;
        // Whoever includes it must not break.
        for other in after.keys().filter(|other| **other != name) {
            if flatten(other, &before, &tools).is_ok() {
                flatten(other, &after, &tools)?;
            }
        }
        Ok((definition, flat))
    }

    /// Registers a skill.
    pub fn add(
        &self,
        source: &SkillSource,
        register: Register,
        variables: Variables<'_>,
    ) -> Result<AddedSkill, SkillError> {
        loop {
            let (stored, seen) = self.stored()?;
            let known = self.all(stored, variables);
            let (definition, flat) = self.checked(source, &known, variables)?;
            let name = definition.name().to_string();
            let (text, place) = source.kept();
            let key = name.clone();
            let written = self.engine.write(move |unit| {
                if !is_unchanged(unit, &seen)? {
                    return Ok::<_, cleveragents_store::Error>(Written::Overtaken);
                }
                let kind = DefinitionKind::Skill;
                let outcome = if definitions::insert(unit, kind, &key, &text, &place)? {
                    Outcome::Created
                } else if register == Register::Update {
                    definitions::update(unit, kind, &key, &text, &place)?;
                    Outcome::Updated
                } else {
                    return Ok(Written::Refused);
                };
                let row = definitions::get(unit, kind, &key)?;
                Ok(row.map_or(Written::Overtaken, |row| {
                    Written::Done(Box::new(row), outcome)
                }))
            })?;
            match written {
                Written::Overtaken => {}
                Written::Refused => return Err(SkillError::Exists(name)),
                Written::Done(stored, outcome) => {
                    return Ok(AddedSkill {
                        definition,
                        flat,
                        stored: *stored,
                        outcome,
                    });
                }
            }
        }
    }

    /// Who uses a skill.
    pub fn used_by(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<Vec<SkillUser>, SkillError> {
        let known = self.known(variables)?;
        let actors = self
            .engine
            .read(|reader| definitions::list(reader, DefinitionKind::Actor))?;
        Ok(users(name, &known, &actors))
    }

    /// Removes a registered skill that nothing uses, also one that cannot be read any more.
    pub fn remove(&self, name: &str, variables: Variables<'_>) -> Result<KnownSkill, SkillError> {
        loop {
            let (stored, seen) = self.stored()?;
            let mut known = self.all(stored, variables);
            let found = known.swap_remove(position(&known, name)?);
            if let SkillOrigin::Found(folder) = &found.origin {
                return Err(SkillError::Found {
                    name: found.name,
                    folder: folder.display().to_string(),
                });
            }
            let key = found.name.clone();
            let outcome = self.engine.write(move |unit| {
                if !is_unchanged(unit, &seen)? {
                    return Ok::<_, cleveragents_store::Error>(Err(None));
                }
                let actors = definitions::list(unit, DefinitionKind::Actor)?;
                let users = users(&key, &known, &actors);
                if !users.is_empty() {
                    return Ok(Err(Some(users)));
                }
                definitions::remove(unit, DefinitionKind::Skill, &key).map(Ok)
            })?;
            match outcome {
                Ok(_) => return Ok(found),
                Err(None) => {}
                Err(Some(by)) => {
                    return Err(SkillError::InUse {
                        name: found.name,
                        by,
                    });
                }
            }
        }
    }

    /// Reads the files of skills again: of one, or of all.
    pub fn refresh(
        &self,
        name: Option<&str>,
        variables: Variables<'_>,
    ) -> Result<Refreshed, SkillError> {
        let mut known = self.known(variables)?;
        if let Some(name) = name {
            known = vec![known.swap_remove(position(&known, name)?)];
        }
        let mut refreshed = Refreshed::default();
        for skill in known {
            let name = skill.name.clone();
            match self.refresh_one(&skill, variables) {
                Ok(Looked::Changed) => refreshed.refreshed.push(name),
                Ok(Looked::Same) => refreshed.unchanged.push(name),
                Ok(Looked::Skipped(why)) => refreshed.skipped.push((name, why)),
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
    ) -> Result<Looked, SkillError> {
        let source = match &skill.origin {
            SkillOrigin::Found(folder) => SkillSource::Folder(folder.clone()),
            SkillOrigin::Registered(stored) => {
                SkillSource::stored(&stored.definition, &stored.source)
            }
        };
        let source = match source {
            SkillSource::Folder(folder) if !folder.is_dir() => {
                return Ok(Looked::Skipped(format!(
                    "`{}` is not there",
                    folder.display()
                )));
            }
            SkillSource::Folder(folder) => SkillSource::Folder(folder),
            SkillSource::File { file, text } => match read_again(&file) {
                Ok(now) if now == text => SkillSource::File { text, file },
                Ok(now) => {
                    return self.replace(skill, &SkillSource::File { text: now, file }, variables);
                }
                Err(error) => {
                    return Ok(Looked::Skipped(format!(
                        "`{}` cannot be read: {error}",
                        file.display()
                    )));
                }
            },
        };
        self.check(&source, variables)?;
        Ok(Looked::Same)
    }

    fn replace(
        &self,
        skill: &KnownSkill,
        source: &SkillSource,
        variables: Variables<'_>,
    ) -> Result<Looked, SkillError> {
        let definition = source.read(variables)?;
        if definition.name().to_string() != skill.name {
            let why = format!(
                "its file describes `{}` now; add that, and remove this one",
                definition.name()
            );
            return Ok(Looked::Skipped(why));
        }
        self.add(source, Register::Update, variables)?;
        Ok(Looked::Changed)
    }
}

/// What a look at a skill found.
enum Looked {
    Changed,
    Same,
    Skipped(String),
}

/// What a unit of work did.
enum Written {
    Done(Box<StoredDefinition>, Outcome),
    Refused,
    Overtaken,
}

/// The text of the file of a skill.
fn read_again(file: &Path) -> std::io::Result<String> {
    const LARGEST: u64 = 1 << 20;
    let bytes = read_regular(file, Links::Follow, LARGEST)?;
    let bytes = bytes.ok_or(std::io::ErrorKind::NotFound)?;
    String::from_utf8(bytes).map_err(std::io::Error::other)
}

fn seen(stored: &[StoredDefinition]) -> Seen {
    stored
        .iter()
        .map(|row| (row.name.clone(), row.version))
        .collect()
}

/// Whether the stored skills are still those that were read; nobody else changes them until the unit
/// ends.
fn is_unchanged(
    unit: &mut UnitOfWork<'_>,
    before: &Seen,
) -> Result<bool, cleveragents_store::Error> {
    definitions::lock(unit)?;
    let reader: &mut dyn Reader = unit;
    Ok(seen(&definitions::list(reader, DefinitionKind::Skill)?) == *before)
}

/// The skills that can be read.
pub(super) fn library(known: &[KnownSkill]) -> Library {
    let readable = known
        .iter()
        .filter_map(|skill| skill.definition.as_ref().ok());
    readable
        .map(|definition| (definition.name().clone(), definition.clone()))
        .collect()
}

/// The place of a skill among those known.
fn position(known: &[KnownSkill], name: &str) -> Result<usize, SkillError> {
    let wanted = name.trim().parse::<Name>().map(|name| name.to_string());
    let wanted = wanted.unwrap_or_else(|_| name.to_owned());
    let is_meant = |skill: &KnownSkill| {
        // What an agent skill calls itself may be in another script.
        let own = match &skill.definition {
            Ok(Definition::Agent(agent)) => Some(agent.name.as_str()),
            _ => None,
        };
        skill.name == wanted || own == Some(name)
    };
    known
        .iter()
        .position(is_meant)
        .ok_or_else(|| SkillError::NotFound {
            name: name.to_owned(),
            nearest: nearest::all(name, known.iter().map(|skill| skill.name.as_str()), 3),
        })
}

fn users(name: &str, known: &[KnownSkill], actors: &[StoredDefinition]) -> Vec<SkillUser> {
    let mut users = Vec::new();
    for skill in known {
        if let Ok(Definition::Collection(other)) = &skill.definition
            && other
                .includes
                .iter()
                .any(|include| include.skill.to_string() == name)
        {
            users.push(SkillUser::Skill(skill.name.clone()));
        }
    }
    for actor in actors {
        let text = yaml::read::<Value>(&actor.definition).unwrap_or_default();
        if names_skill(&text, name) {
            users.push(SkillUser::Actor(actor.name.clone()));
        }
    }
    users
}

/// Whether the file of an actor has a skill in a list of `skills` or `tool_sources`.
fn names_skill(value: &Value, wanted: &str) -> bool {
    let is_wanted = |value: &Value| {
        let name = value.as_str().or_else(|| value.get("name")?.as_str());
        name.and_then(|name| name.parse::<Name>().ok())
            .is_some_and(|name| name.to_string() == wanted)
    };
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let is_meant = |item: &Value| match key.as_str() {
                "skills" => is_wanted(item),
                "tool_sources" => {
                    let kind = item.get("type").and_then(Value::as_str);
                    matches!(kind, Some("skill" | "agent_skill")) && is_wanted(item)
                }
                _ => false,
            };
            let here = value
                .as_array()
                .is_some_and(|items| items.iter().any(is_meant));
            here || names_skill(value, wanted)
        }),
        Value::Array(items) => items.iter().any(|item| names_skill(item, wanted)),
        _ => false,
    }
}
