//! `prompts`, `templates` and `instances`: parts of a file that are written once and used in several places with
//! different values.
//!
//! A placeholder is `{{ name }}`, where `name` is a parameter; every other `{{ … }}` is left for the run. Uses are
//! expanded right after parsing, so later stages never see them.

use super::error::{broken_rule, did_you_mean};
use super::fields::{Fields, list, map, text};
use super::tables::{PROMPT, PROMPT_USE};
use super::tree::{FilePosition, Tree, WithPosition};
use cleveragents_domain::DefinitionFault;

/// Maximum nesting of templates.
const MAX_DEPTH: usize = 16;

/// Maximum number of values that expansion may add to a file.
const MAX_ADDED: usize = 50_000;

/// Fields whose values are data: a field `template` below them is not a use of a template.
const DATA_FIELDS: &[&str] = &[
    "arguments",
    "args",
    "parameters",
    "params",
    "with",
    "global_context",
    "options",
    "set",
    "input",
    "output",
    "response_format",
    "initial",
    "state",
    "prompts",
    "templates",
];

/// Replaces every use of a prompt or a template in a file.
pub(super) fn replace_uses(top: &mut WithPosition<Tree>) -> Result<(), DefinitionFault> {
    let Tree::Map(fields) = &top.value else {
        return Ok(());
    };
    let field_value = |field_name: &str| {
        let field = fields.iter().find(|(name, _)| name.value == field_name);
        field.map(|(_, value)| value.clone())
    };
    let uses = TemplateFields {
        prompts: field_value("prompts"),
        templates: field_value("templates"),
    };
    let mut remaining = MAX_ADDED;
    let Tree::Map(fields) = &mut top.value else {
        return Ok(());
    };
    for (name, value) in fields {
        if !DATA_FIELDS.contains(&name.value.as_str()) {
            uses.walk(&name.value, value, 0, &mut remaining)?;
        }
    }
    Ok(())
}

struct TemplateFields {
    prompts: Option<WithPosition<Tree>>,
    templates: Option<WithPosition<Tree>>,
}

impl TemplateFields {
    fn walk(
        &self,
        field: &str,
        tree: &mut WithPosition<Tree>,
        depth: usize,
        remaining: &mut usize,
    ) -> Result<(), DefinitionFault> {
        let is_prompt = matches!(field, "prompt" | "system_prompt" | "instructions");
        if is_prompt && matches!(tree.value, Tree::Map(_)) {
            *tree = self.prompt(tree)?;
            return Ok(());
        }
        match &mut tree.value {
            Tree::List(items) => items
                .iter_mut()
                .try_for_each(|item| self.walk("", item, depth, remaining)),
            Tree::Map(fields) => {
                if fields.iter().any(|(name, _)| name.value == "template") {
                    let instance = self.instance(fields, tree.place, remaining)?;
                    *tree = instance;
                    if depth >= MAX_DEPTH {
                        return Err(broken_rule(
                            tree.place,
                            "templates use each other recursively",
                            "remove the recursive use",
                        ));
                    }
                    return self.walk(field, tree, depth + 1, remaining);
                }
                for (name, value) in fields {
                    if !DATA_FIELDS.contains(&name.value.as_str()) {
                        self.walk(&name.value, value, depth, remaining)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Expands a use of a prompt.
    fn prompt(&self, tree: &WithPosition<Tree>) -> Result<WithPosition<Tree>, DefinitionFault> {
        let prompt_use = Fields::open(tree, &PROMPT_USE, &mut Vec::new())?;
        let name = text(prompt_use.needed("prompt", "a use of a prompt")?)?;
        let found = find(self.prompts.as_ref(), &name, "prompt")?;
        let (body, parameters) = match &found.value {
            Tree::Map(_) => {
                let prompt = Fields::open(found, &PROMPT, &mut Vec::new())?;
                (
                    prompt.needed("template", "a prompt")?,
                    prompt.get("parameters"),
                )
            }
            _ => (found, None),
        };
        let values = ParameterValues::new(parameters, prompt_use.get("with"), &name)?;
        text(body)?;
        Ok(values.fill(body))
    }

    /// Merges the fields of a template with the fields next to its use, which take precedence.
    fn instance(
        &self,
        fields: &[(WithPosition<String>, WithPosition<Tree>)],
        place: FilePosition,
        remaining: &mut usize,
    ) -> Result<WithPosition<Tree>, DefinitionFault> {
        let mut name = None;
        let mut with = None;
        let mut overrides = Vec::new();
        for (field, value) in fields {
            match field.value.as_str() {
                "template" => name = Some(text(value)?),
                "with" | "parameters" | "params" => with = Some(value),
                _ => overrides.push((field.clone(), value.clone())),
            }
        }
        let Some(name) = name else {
            return Ok(WithPosition::new(Tree::Map(fields.to_vec()), place));
        };
        let template = find(self.templates.as_ref(), &name, "template")?;
        let mut parameters = None;
        let mut body = Vec::new();
        for (field, value) in map(template)? {
            if field.value == "parameters" {
                parameters = Some(value);
            } else if !overrides
                .iter()
                .any(|(other, _)| other.value == field.value)
            {
                body.push((field.clone(), value.clone()));
            }
        }
        let values = ParameterValues::new(parameters, with, &name)?;
        let mut expanded = values.fill(&WithPosition::new(Tree::Map(body), place));
        if let Tree::Map(fields) = &mut expanded.value {
            fields.extend(overrides);
        }
        let Some(rest) = remaining.checked_sub(expanded.value.size()) else {
            let message = format!("templates add more than {MAX_ADDED} values to the file");
            return Err(broken_rule(name.place, message, "use them less often"));
        };
        *remaining = rest;
        Ok(expanded)
    }
}

fn find<'t>(
    known: Option<&'t WithPosition<Tree>>,
    name: &WithPosition<String>,
    kind: &str,
) -> Result<&'t WithPosition<Tree>, DefinitionFault> {
    let known = known.map_or(Ok(&[][..]), map)?;
    let found = known.iter().find(|(other, _)| other.value == name.value);
    found.map(|(_, value)| value).ok_or_else(|| {
        let names = known.iter().map(|(other, _)| other.value.as_str());
        let fix = did_you_mean(&name.value, names, || format!("add it to `{kind}s`"));
        let message = format!("{kind} `{}` does not exist", name.value);
        broken_rule(name.place, message, fix)
    })
}

struct ParameterValues<'t> {
    values: Vec<(&'t str, &'t Tree)>,
}

impl<'t> ParameterValues<'t> {
    fn new(
        declared: Option<&'t WithPosition<Tree>>,
        given: Option<&'t WithPosition<Tree>>,
        owner: &WithPosition<String>,
    ) -> Result<Self, DefinitionFault> {
        let given = given.map_or(Ok(&[][..]), map)?;
        let mut values: Vec<(&str, &Tree)> = given
            .iter()
            .map(|(name, value)| (name.value.as_str(), &value.value))
            .collect();
        let Some(declared) = declared else {
            return Ok(Self { values });
        };
        let no_default = &Tree::Null;
        let declared: Vec<(&str, &Tree)> = match &declared.value {
            Tree::Map(fields) => fields
                .iter()
                .map(|(name, default)| (name.value.as_str(), &default.value))
                .collect(),
            _ => list(declared)?
                .iter()
                .filter_map(|item| match &item.value {
                    Tree::Text(name) => Some((name.as_str(), no_default)),
                    _ => None,
                })
                .collect(),
        };
        for (name, _) in given {
            if !declared.iter().any(|(other, _)| *other == name.value) {
                let message = format!("`{}` has no parameter `{}`", owner.value, name.value);
                let known = declared.iter().map(|(other, _)| *other);
                let fix = did_you_mean(&name.value, known, || "remove it".to_owned());
                return Err(broken_rule(name.place, message, fix));
            }
        }
        for (name, default) in declared {
            if values.iter().any(|(other, _)| *other == name) {
                continue;
            }
            if *default == Tree::Null {
                let message = format!("the parameter `{name}` of `{}` has no value", owner.value);
                let fix = format!("add `with: {{{name}: …}}`");
                return Err(broken_rule(owner.place, message, fix));
            }
            values.push((name, default));
        }
        Ok(Self { values })
    }

    fn value(&self, name: &str) -> Option<&'t Tree> {
        let found = self.values.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| *value)
    }

    fn fill(&self, tree: &WithPosition<Tree>) -> WithPosition<Tree> {
        let value = match &tree.value {
            Tree::Text(text) => self.fill_text(text),
            Tree::List(items) => Tree::List(items.iter().map(|item| self.fill(item)).collect()),
            Tree::Map(fields) => Tree::Map(
                fields
                    .iter()
                    .map(|(name, value)| (name.clone(), self.fill(value)))
                    .collect(),
            ),
            other => other.clone(),
        };
        WithPosition::new(value, tree.place)
    }

    /// A text that consists of a single placeholder becomes the value itself, which may have any type.
    fn fill_text(&self, text: &str) -> Tree {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let Some(end) = rest[start..].find("}}").map(|end| start + end + 2) else {
                break;
            };
            let name = rest[start + 2..end - 2].trim();
            filled.push_str(&rest[..start]);
            match self.value(name) {
                Some(value) if rest.len() == text.len() && start == 0 && end == text.len() => {
                    return value.clone();
                }
                Some(Tree::Text(value)) => filled.push_str(value),
                Some(value) => filled.push_str(&value.json().to_string()),
                None => filled.push_str(&rest[start..end]),
            }
            rest = &rest[end..];
        }
        filled.push_str(rest);
        Tree::Text(filled)
    }
}
