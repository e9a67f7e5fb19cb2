//! Targets of a new sandbox: paths, resources and projects.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cleveragents_application::Target;
use cleveragents_domain::Code;

use crate::arguments::SandboxCreate;
use crate::context::Context;
use crate::output::CommandError;

/// Resolves the targets given on the command line. Also returns the description of their origin.
pub(super) fn resolve(
    context: &Context,
    arguments: &SandboxCreate,
) -> Result<(String, Vec<Target>), CommandError> {
    let resources = context.resources()?;
    let base = context
        .environment
        .working_folder()
        .unwrap_or_else(|| Path::new("/"));
    // All paths are checked before a resource is registered.
    let mut locations = Vec::new();
    for path in &arguments.path {
        let absolute = base.join(path);
        let location = std::fs::canonicalize(&absolute).map_err(|error| {
            CommandError::new(
                Code::LocationNotFound,
                format!("`{}` cannot be read", absolute.display()),
            )
            .caused_by(&error)
            .with_hint("choose an existing path")
        })?;
        locations.push(location);
    }
    refuse_duplicates(locations.iter().map(PathBuf::as_path))?;
    let mut origin = Vec::new();
    let mut targets = Vec::new();
    for location in locations {
        origin.push(format!("path {}", location.display()));
        targets.push(Target::at(&resources, &location)?);
    }
    for reference in &arguments.resource {
        let resource = resources.resolve(reference)?;
        origin.push(format!("resource {}", resource.name));
        let alias = resource.name.to_string();
        let alias = alias.rsplit('/').next().unwrap_or_default();
        targets.push(Target::from_resource(&resources, &resource, alias, false)?);
    }
    if let Some(project) = &arguments.project {
        let (project, links) = context.projects()?.view(project)?;
        origin.push(format!("project {}", project.name));
        targets.extend(Target::of_project(&resources, &links)?);
    }
    if targets.is_empty() {
        return Err(
            CommandError::usage("no path, resource or project is given").with_hint(
                "use --path FOLDER, --resource NAME, or --project NAME with a linked resource",
            ),
        );
    }
    refuse_duplicates(targets.iter().map(|target| target.location.as_path()))?;
    Target::make_distinct(&mut targets);
    Ok((origin.join(", "), targets))
}

fn refuse_duplicates<'a>(
    locations: impl IntoIterator<Item = &'a Path>,
) -> Result<(), CommandError> {
    let mut seen = HashSet::new();
    match locations
        .into_iter()
        .find(|location| !seen.insert(*location))
    {
        Some(duplicate) => {
            let message = format!("`{}` is given twice", duplicate.display());
            Err(CommandError::usage(message).with_hint("remove one of them"))
        }
        None => Ok(()),
    }
}
