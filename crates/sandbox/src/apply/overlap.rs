//! Conflicts between members of a sandbox that change the same real path, because one resource contains the other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cleveragents_domain::TreePath;

use super::conflict::reason;
use super::{Conflict, MemberPreview};
use crate::member::{Base, Member};

/// Real paths that members change, each with the alias of the member.
pub(super) type ChangedPaths = BTreeMap<PathBuf, String>;

/// Conflicts of a member's changes with those of earlier members: at the same path, or at a path above or below it.
/// Adds the paths of the member to `ChangedPaths`.
pub(super) fn with_earlier(
    member: &Member,
    preview: &MemberPreview,
    places: &mut ChangedPaths,
) -> Vec<Conflict> {
    let changed = real_paths_of(member, preview);
    let conflicts = changed
        .iter()
        .filter_map(|(place, path)| {
            let containing = place.ancestors().find_map(|above| places.get(above));
            let contained = || {
                let (below, alias) = places.range(place.clone()..).next()?;
                below.starts_with(place).then_some(alias)
            };
            let other = containing.or_else(contained)?;
            Some(Conflict {
                alias: member.alias.clone(),
                path: path.clone(),
                reason: reason::also_in_part(other),
                base: None,
                yours: None,
                sandbox: None,
            })
        })
        .collect();
    places.extend(
        changed
            .into_iter()
            .map(|(place, _)| (place, member.alias.clone())),
    );
    conflicts
}

/// Real paths of a member's changes. For a bare repository these paths do not exist, and no other member changes them
/// either.
fn real_paths_of(member: &Member, preview: &MemberPreview) -> Vec<(PathBuf, TreePath)> {
    let paths = preview.files.iter().map(|change| change.path.clone());
    match &member.base {
        Base::Git(_) | Base::Directory => paths
            .map(|path| (member.location.join(path.as_path()), path))
            .collect(),
        Base::File => paths.map(|path| (member.location.clone(), path)).collect(),
        Base::Sqlite { .. } if preview.database => {
            let name = member.location.file_name().unwrap_or_default();
            let path = TreePath::from_bytes(std::os::unix::ffi::OsStrExt::as_bytes(name));
            path.ok()
                .map(|path| (member.location.clone(), path))
                .into_iter()
                .collect()
        }
        Base::Sqlite { .. } | Base::Postgres => Vec::new(),
    }
}
