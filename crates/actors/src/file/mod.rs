//! [`ActorFile`]: an actor file, parsed but not yet compiled.
//!
//! Three shapes are accepted: several actors with routes (`actors`, `routes`), one actor (`type`), and the legacy form
//! without these fields. Reading parses the YAML, inserts variables and templates, and reads the name and the header.
//! The compiler checks the nodes.

mod error;
mod fast_parser;
mod fields;
mod section;
mod tables;
mod template;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::yaml::{Expand, Variables};
use cleveragents_domain::{ActorName, DefinitionFault, DefinitionFileError, DefinitionKind};

pub(crate) use error::{broken_rule, did_you_mean, malformed};
pub(crate) use fields::{Fields, list, map, text, unexpected};
pub(crate) use section::{Field, FieldUse, Form, Section};
pub(crate) use tree::{FilePosition, Tree, WithPosition};

use tables::HEADER;
pub(crate) use tables::{
    CHECK, CONDITION, DEFINITION, EDGE, KEY, LIMITS, MEMORY, NODE, ROUTE, RULE, TOOL_CALL,
    TOOL_SOURCE, TOP,
};

#[derive(Debug, Clone)]
pub struct ActorFile {
    pub(crate) file: PathBuf,
    /// The text of the file, for excerpts in error messages.
    pub(crate) source: Arc<str>,
    pub(crate) name: ActorName,
    pub(crate) top: WithPosition<Tree>,
    pub(crate) header: Header,
    pub(crate) warnings: Vec<String>,
}

/// The header `cleveragents` of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    pub(crate) default_actor: Option<WithPosition<String>>,
    pub(crate) is_unsafe: bool,
}

impl ActorFile {
    pub const fn name(&self) -> &ActorName {
        &self.name
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// Reads an actor from the text of its file. `variables` returns the values of `${NAME}`.
pub fn read(
    text: &str,
    file: &Path,
    variables: Variables<'_>,
) -> Result<ActorFile, DefinitionFileError> {
    read_text(text, file, variables)
        .map_err(|fault| fault.in_file(file, DefinitionKind::Actor, text))
}

fn read_text(
    source: &str,
    file: &Path,
    variables: Variables<'_>,
) -> Result<ActorFile, DefinitionFault> {
    let mut top = tree::parse(source)?;
    if !matches!(top.value, Tree::Map(_)) {
        let message = match top.value {
            Tree::Null => "the file is empty".to_owned(),
            ref other => format!(
                "the file contains {} instead of the fields of an actor",
                other.kind()
            ),
        };
        let fix = "write `name: …`, `type: …` and the other fields, each on its own line";
        let place = FilePosition { line: 1, column: 1 };
        return Err(malformed(place, message, fix));
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
        source: source.into(),
        name,
        top,
        header,
        warnings,
    })
}

fn read_name(fields: &Fields<'_>) -> Result<ActorName, DefinitionFault> {
    let written = text(fields.needed("name", "an actor file")?)?;
    let fix = "write `namespace/name`, such as `local/reviewer`";
    let name: ActorName =
        written
            .value
            .parse()
            .map_err(|error: cleveragents_domain::NameError| {
                broken_rule(written.place, error.to_string(), fix)
            })?;
    if name.require_free_namespace().is_err() {
        let message = format!("the namespace `{}` is reserved", name.namespace());
        let fix = "choose another namespace, such as `local/`";
        return Err(broken_rule(written.place, message, fix));
    }
    Ok(name)
}

fn read_header(fields: &Fields<'_>, warnings: &mut Vec<String>) -> Result<Header, DefinitionFault> {
    let Some(tree) = fields.get("cleveragents") else {
        return Ok(Header::default());
    };
    let header = Fields::open(tree, &HEADER, warnings)?;
    if let Some(version) = header.text("version")?
        && version.value != "3"
        && !version.value.starts_with("3.")
    {
        let message = format!(
            "unknown format version {}; the supported version is 3.0",
            version.value
        );
        let fix = "write `version: \"3.0\"`, or remove it";
        return Err(malformed(version.place, message, fix));
    }
    if let Some(engine) = header.text("template_engine")?
        && !engine.value.to_lowercase().starts_with("jinja")
    {
        let message = format!("template engine `{}` does not exist", engine.value);
        let fix = "write templates in Jinja, and remove `template_engine`";
        return Err(malformed(engine.place, message, fix));
    }
    Ok(Header {
        default_actor: header.text("default_actor")?,
        is_unsafe: header.flag("unsafe")?.unwrap_or(false),
    })
}
