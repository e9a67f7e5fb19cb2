//! The ready-made pools: files that users can register as they are, or edit.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyMadePool {
    pub name: &'static str,
    /// The file, with placeholders for project and actors.
    text: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolActors {
    pub cheap: String,
    pub default: String,
    pub frontier: String,
    pub reviewer: String,
}

macro_rules! ready_made {
    ($($name:literal),*) => {
        [$(ReadyMadePool { name: $name, text: include_str!(concat!($name, ".yaml")) }),*]
    };
}

/// The ready-made pools, in the order in which an item passes them.
pub const READY_MADE_POOLS: [ReadyMadePool; 7] = ready_made!(
    "hunt", "triage", "capture", "fix", "review", "merge", "watch"
);

impl ReadyMadePool {
    /// Looks up a ready-made pool.
    pub fn find(name: &str) -> Option<Self> {
        READY_MADE_POOLS.into_iter().find(|pool| pool.name == name)
    }

    /// The one-line description of the file.
    pub fn description(&self) -> &'static str {
        let line = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix("description: "));
        line.unwrap_or_default()
    }

    pub fn file(&self, project: &str, actors: &PoolActors) -> String {
        let values = [
            ("project: PROJECT", format!("project: {project}")),
            ("actor: CHEAP", format!("actor: {}", actors.cheap)),
            ("actor: DEFAULT", format!("actor: {}", actors.default)),
            ("actor: FRONTIER", format!("actor: {}", actors.frontier)),
            ("actor: REVIEWER", format!("actor: {}", actors.reviewer)),
        ];
        values
            .iter()
            .fold(self.text.to_owned(), |text, (placeholder, value)| {
                text.replace(placeholder, value)
            })
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::PoolDefinition;

    use super::{PoolActors, READY_MADE_POOLS};

    #[test]
    fn every_ready_made_pool_is_a_valid_file() {
        let actors = PoolActors {
            cheap: "local/cheap".to_owned(),
            default: "anthropic/claude".to_owned(),
            frontier: "local/frontier".to_owned(),
            reviewer: "local/reviewer".to_owned(),
        };
        for pool in READY_MADE_POOLS {
            let file = pool.file("local/shop", &actors);
            let definition = PoolDefinition::read(&file, &|_| None);
            let definition = definition.unwrap_or_else(|fault| panic!("{}: {fault:?}", pool.name));
            assert_eq!(definition.name, format!("local/{}", pool.name));
            assert_eq!(definition.project, "local/shop");
            assert_eq!(definition.role.as_str(), pool.name);
            assert_eq!(definition.description, pool.description());
        }
    }
}
