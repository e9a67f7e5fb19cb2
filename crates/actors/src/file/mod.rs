//! [`ActorFile`]: the file of an actor, read but not yet compiled.
//!
//! Three shapes are accepted: several actors with routes (`actors`, `routes`), one actor (`type`), and
//! the old form that has neither. Reading parses the YAML, puts in variables and templates and finds
//! out who is who; what the nodes say is looked at when the file is compiled.

mod error;
mod fields;
mod quick;
mod section;
mod tables;
mod template;
mod tree;

use std::path::{Path, PathBuf};

use cleveragents_domain::ActorName;
use cleveragents_domain::yaml::{Expand, Variables};

pub use error::FileError;
pub(crate) use error::{Complaint, meant};
pub(crate) use fields::{Fields, list, map, text, unexpected};
pub(crate) use section::{Field, Form, Section, Use};
pub(crate) use tree::{At, Place, Tree};

use tables::HEADER;
pub(crate) use tables::{
    CHECK, CONDITION, DEFINITION, EDGE, KEY, LIMITS, MEMORY, NODE, ROUTE, RULE, TOOL_CALL,
    TOOL_SOURCE, TOP,
};

/// The file of an actor.
#[derive(Debug, Clone)]
pub struct ActorFile {
    pub(crate) file: PathBuf,
    pub(crate) name: ActorName,
    pub(crate) top: At<Tree>,
    pub(crate) header: Header,
    pub(crate) warnings: Vec<String>,
}

/// What a file says about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    pub(crate) default_actor: Option<At<String>>,
    pub(crate) is_unsafe: bool,
}

impl ActorFile {
    /// The name of the actor.
    pub const fn name(&self) -> &ActorName {
        &self.name
    }

    /// Where it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// Reads an actor from the text of its file. `variables` gives the values of `${NAME}`.
pub fn read(text: &str, file: &Path, variables: Variables<'_>) -> Result<ActorFile, FileError> {
    read_text(text, file, variables).map_err(|complaint| complaint.in_file(file))
}

fn read_text(source: &str, file: &Path, variables: Variables<'_>) -> Result<ActorFile, Complaint> {
    let mut top = tree::parse(source)?;
    if !matches!(top.value, Tree::Map(_)) {
        let message = match top.value {
            Tree::Null => "the file is empty".to_owned(),
            ref other => format!(
                "the file holds {}, not the fields of an actor",
                other.kind()
            ),
        };
        let fix = "write `name: …`, `type: …` and the other fields, one a line";
        let place = Place { line: 1, column: 1 };
        return Err(Complaint::malformed(place, message, fix));
    }
    if source.contains("${") {
        let expand = Expand {
            text: source,
            variables,
        };
        top.value.expand(&expand)?;
    }
    template::replace_uses(&mut top)?;
    let mut warnings = Vec::new();
    let fields = Fields::open(&top, &TOP, &mut warnings)?;
    let header = read_header(&fields, &mut warnings)?;
    let name = read_name(&fields)?;
    Ok(ActorFile {
        file: file.to_owned(),
        name,
        top,
        header,
        warnings,
    })
}

fn read_name(fields: &Fields<'_>) -> Result<ActorName, Complaint> {
    let written = text(fields.needed("name", "an actor file")?)?;
    let fix = "write `namespace/name`, such as `local/reviewer`";
    let name: ActorName =
        written
            .value
            .parse()
            .map_err(|error: cleveragents_domain::NameError| {
                Complaint::rule(written.place, error.to_string(), fix)
            })?;
    if name.require_free_namespace().is_err() {
        let message = format!(
            "the namespace `{}` is kept for the program",
            name.namespace()
        );
        let fix = "choose another namespace, such as `local/`";
        return Err(Complaint::rule(written.place, message, fix));
    }
    Ok(name)
}

fn read_header(fields: &Fields<'_>, warnings: &mut Vec<String>) -> Result<Header, Complaint> {
    let Some(tree) = fields.get("cleveragents") else {
        return Ok(Header::default());
    };
    let header = Fields::open(tree, &HEADER, warnings)?;
    if let Some(version) = header.text("version")?
        && version.value != "3"
        && !version.value.starts_with("3.")
    {
        let message = format!(
            "the format version {} is not known; this program reads 3.0",
            version.value
        );
        let fix = "write `version: \"3.0\"`, or leave it out";
        return Err(Complaint::malformed(version.place, message, fix));
    }
    if let Some(engine) = header.text("template_engine")?
        && !engine.value.to_lowercase().starts_with("jinja")
    {
        let message = format!("there is no template engine `{}`", engine.value);
        let fix = "write templates in Jinja, and leave `template_engine` out";
        return Err(Complaint::malformed(engine.place, message, fix));
    }
    Ok(Header {
        default_actor: header.text("default_actor")?,
        is_unsafe: header.flag("unsafe")?.unwrap_or(false),
    })
}
