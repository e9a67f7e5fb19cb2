//! Hidden aliases: each verb of a group also works by the names that other groups and programs use for it.

use clap::Command;

/// A verb, and its other names.
const SYNONYMS: [(&str, &[&str]); 9] = [
    ("add", &["create", "new"]),
    ("create", &["add", "new"]),
    ("remove", &["delete", "rm"]),
    ("delete", &["remove", "rm"]),
    ("discard", &["delete", "remove", "rm"]),
    ("revoke", &["delete", "remove", "rm"]),
    ("list", &["ls"]),
    ("show", &["get", "view", "inspect"]),
    ("rename", &["mv"]),
];

/// Adds the aliases to the subcommands of every group, except where a sibling has the name.
pub(super) fn with_synonyms(root: Command) -> Command {
    root.mut_subcommands(with_aliases)
}

fn with_aliases(group: Command) -> Command {
    let taken: Vec<String> = group
        .get_subcommands()
        .flat_map(|command| std::iter::once(command.get_name()).chain(command.get_all_aliases()))
        .map(str::to_owned)
        .collect();
    group.mut_subcommands(|command| {
        let names = SYNONYMS
            .iter()
            .find(|(verb, _)| *verb == command.get_name())
            .map_or(&[][..], |(_, names)| *names);
        let free = names
            .iter()
            .copied()
            .filter(|name| !taken.iter().any(|taken| taken == name));
        let command = command.aliases(free);
        with_aliases(command)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::{Arguments, Invocation};
    use super::with_synonyms;

    #[test]
    fn no_two_commands_of_a_group_have_the_same_name() {
        with_synonyms(Arguments::command()).debug_assert();
    }

    #[test]
    fn other_names_of_a_verb_are_accepted() {
        for line in [
            ["agents", "project", "rm", "shop"],
            ["agents", "project", "remove", "shop"],
            ["agents", "sandbox", "delete", "fix"],
            ["agents", "session", "get", "weekly"],
            ["agents", "actor", "delete", "local/a"],
        ] {
            let parsed = Invocation::parse(line);
            assert!(parsed.is_ok(), "{line:?}: {:?}", parsed.err());
        }
        assert!(Invocation::parse(["agents", "session", "ls"]).is_ok());
        assert!(Invocation::parse(["agents", "session", "fly"]).is_err());
    }
}
