//! Divides the files of a sandbox into parts that are small enough for a child plan: by folder, and by language where
//! a single folder is too large. Parts that are not small enough for one plan are grouped, level by level.

use std::collections::BTreeMap;

use cleveragents_domain::{PartBounds, PlanStep};

/// Estimated number of bytes of a token.
const BYTES_PER_TOKEN: u64 = 4;

/// Maximum number of files that the title of a part names.
const NAMED_FILES: usize = 3;

/// A file to divide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DividedFile {
    /// Path, with the part of the sandbox if it has several.
    pub(super) path: String,
    /// Size in bytes.
    pub(super) size: u64,
}

impl DividedFile {
    const fn tokens(&self) -> u64 {
        self.size.div_ceil(BYTES_PER_TOKEN)
    }

    /// The ending of the name, which stands for the language.
    fn language(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit_once('.').map_or("", |(_, ending)| ending)
    }
}

/// Files that belong together.
#[derive(Debug, Default)]
struct Group<'f> {
    /// Folders that are in the group as a whole.
    folders: Vec<String>,
    /// Single files, because their folder is divided.
    files: Vec<&'f DividedFile>,
    count: usize,
    tokens: u64,
}

impl<'f> Group<'f> {
    fn of_folder(folder: &str, files: &[&'f DividedFile]) -> Self {
        Self {
            folders: vec![folder.to_owned()],
            files: Vec::new(),
            count: files.len(),
            tokens: files.iter().map(|file| file.tokens()).sum(),
        }
    }

    fn fits(&self, count: usize, tokens: u64, bounds: &PartBounds) -> bool {
        let files = (self.count + count) as u64;
        files <= u64::from(bounds.max_files) && self.tokens + tokens <= bounds.max_tokens
    }

    fn join(&mut self, other: Self) {
        self.folders.extend(other.folders);
        self.files.extend(other.files);
        self.count += other.count;
        self.tokens += other.tokens;
    }

    /// The paths of the group, as patterns.
    fn patterns(&self) -> Vec<String> {
        let folders = self.folders.iter().map(|folder| match folder.as_str() {
            "" => "**".to_owned(),
            folder => format!("{folder}/**"),
        });
        folders
            .chain(self.files.iter().map(|file| file.path.clone()))
            .collect()
    }

    fn title(&self) -> String {
        let mut names: Vec<&str> = self.folders.iter().map(String::as_str).collect();
        names.extend(self.files.iter().map(|file| file.path.as_str()));
        if names == [""] {
            return "All files".to_owned();
        }
        let more = names.len().saturating_sub(NAMED_FILES);
        names.truncate(NAMED_FILES);
        let listed = names.join(", ");
        match more {
            0 => listed,
            more => format!("{listed} and {more} more"),
        }
    }
}

/// Divides files into steps that are child plans. A file that is too large on its own is a part on its own.
pub(super) fn divide(files: &[DividedFile], bounds: &PartBounds) -> Vec<PlanStep> {
    let all: Vec<&DividedFile> = files.iter().collect();
    let mut groups = Vec::new();
    divide_folder("", &all, bounds, &mut groups);
    let parts = groups.iter().map(|group| PlanStep {
        title: group.title(),
        description: format!(
            "Do the task in these files, and change no others: {}",
            group.patterns().join(", ")
        ),
        files: group.patterns(),
        child_plan: true,
        ..PlanStep::default()
    });
    in_levels(parts.collect(), bounds.max_parts as usize)
}

/// Adds the groups of a folder: the whole folder if it is within the bounds, else those of its folders and files.
/// Neighbours are joined as long as they stay within the bounds.
fn divide_folder<'f>(
    folder: &str,
    files: &[&'f DividedFile],
    bounds: &PartBounds,
    groups: &mut Vec<Group<'f>>,
) {
    let whole = Group::of_folder(folder, files);
    if whole.fits(0, 0, bounds) {
        add(whole, bounds, groups);
        return;
    }
    let prefix = if folder.is_empty() {
        0
    } else {
        folder.len() + 1
    };
    let mut folders: BTreeMap<&str, Vec<&DividedFile>> = BTreeMap::new();
    let mut own: BTreeMap<&str, Vec<&DividedFile>> = BTreeMap::new();
    for file in files.iter().copied() {
        match file.path[prefix..].split_once('/') {
            Some((name, _)) => folders
                .entry(&file.path[..prefix + name.len()])
                .or_default()
                .push(file),
            None => own.entry(file.language()).or_default().push(file),
        }
    }
    for (name, inside) in folders {
        divide_folder(name, &inside, bounds, groups);
    }
    // Files of one language stay together as far as possible.
    for file in own.into_values().flatten() {
        let single = Group {
            files: vec![file],
            count: 1,
            tokens: file.tokens(),
            ..Group::default()
        };
        add(single, bounds, groups);
    }
}

fn add<'f>(group: Group<'f>, bounds: &PartBounds, groups: &mut Vec<Group<'f>>) {
    match groups.last_mut() {
        Some(last) if last.fits(group.count, group.tokens, bounds) => last.join(group),
        _ => groups.push(group),
    }
}

/// Groups steps until no plan has more than `width` parts. Each group is a child plan with the steps of the group.
fn in_levels(mut steps: Vec<PlanStep>, width: usize) -> Vec<PlanStep> {
    while steps.len() > width {
        let mut grouped: Vec<PlanStep> = Vec::with_capacity(steps.len().div_ceil(width));
        let mut rest = steps.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<PlanStep> = rest.by_ref().take(width).collect();
            match <[PlanStep; 1]>::try_from(group) {
                Ok([single]) => grouped.push(single),
                Err(group) => grouped.push(PlanStep {
                    title: format!(
                        "{} to {}",
                        first_name(&group[0].title),
                        last_name(&group[group.len() - 1].title)
                    ),
                    files: group.iter().flat_map(|step| step.files.clone()).collect(),
                    child_plan: true,
                    steps: group,
                    ..PlanStep::default()
                }),
            }
        }
        steps = grouped;
    }
    steps
}

/// The first file or folder in the title of a part or group.
fn first_name(title: &str) -> &str {
    let end = [", ", " to ", " and "]
        .iter()
        .filter_map(|separator| title.find(separator))
        .min();
    end.map_or(title, |end| &title[..end])
}

/// The last folder in the title of a group; the first name in the title of a part.
fn last_name(title: &str) -> &str {
    title
        .split_once(" to ")
        .map_or_else(|| first_name(title), |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cleveragents_domain::{PartBounds, PlanStep, PlanStrategy};
    use proptest::prelude::*;

    use super::{DividedFile, divide};

    fn file(path: &str, size: u64) -> DividedFile {
        DividedFile {
            path: path.to_owned(),
            size,
        }
    }

    fn leaves(steps: &[PlanStep]) -> Vec<&PlanStep> {
        let inside = steps.iter().flat_map(|step| match step.steps.as_slice() {
            [] => vec![step],
            inner => leaves(inner),
        });
        inside.collect()
    }

    fn covers(step: &PlanStep, path: &str) -> bool {
        step.files.iter().any(|pattern| {
            pattern
                .strip_suffix("**")
                .map_or(pattern == path, |folder| path.starts_with(folder))
        })
    }

    #[test]
    fn folders_stay_whole_and_small_ones_are_joined() {
        let bounds = PartBounds {
            max_files: 3,
            ..PartBounds::default()
        };
        let files = [
            file("a/1.rs", 10),
            file("a/2.rs", 10),
            file("b/1.rs", 10),
            file("c/1.py", 10),
            file("c/2.rs", 10),
            file("c/d/3.rs", 10),
            file("c/d/4.rs", 10),
            file("e.md", 10),
        ];
        let steps = divide(&files, &bounds);
        let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
        assert_eq!(titles, ["a, b", "c/d, c/1.py", "c/2.rs, e.md"]);
        assert!(steps[0].description.contains("a/**, b/**"), "{steps:?}");
        let whole = divide(&files, &PartBounds::default());
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].files, ["**"]);
    }

    #[test]
    fn many_parts_are_grouped_in_four_levels() {
        let bounds = PartBounds {
            max_files: 1,
            max_parts: 3,
            ..PartBounds::default()
        };
        let files: Vec<DividedFile> = (0..80)
            .map(|number| file(&format!("f{number:02}/a.c"), 1))
            .collect();
        let steps = divide(&files, &bounds);
        assert_eq!(leaves(&steps).len(), 80);
        let strategy = PlanStrategy {
            summary: "In parts".to_owned(),
            steps,
            ..PlanStrategy::default()
        };
        assert_eq!(strategy.child_levels(), 4);
        assert_eq!(strategy.steps[0].title, "f00 to f26");
        strategy.ordered().expect("a valid strategy");
    }

    proptest! {
        #[test]
        fn each_file_is_in_exactly_one_part(
            paths in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,3}\\.(rs|py)", 1..60),
            max_files in 1_u32..9,
            max_tokens in 1_u64..400,
            max_parts in 2_u32..5,
        ) {
            let files: Vec<DividedFile> = (1..).zip(&paths).map(|(size, path)| file(path, size * 8)).collect();
            let bounds = PartBounds { max_files, max_tokens, max_parts };
            let steps = divide(&files, &bounds);
            let parts = leaves(&steps);
            for file in &files {
                let covering = parts.iter().filter(|part| covers(part, &file.path)).count();
                prop_assert_eq!(covering, 1, "{}", file.path);
            }
            for part in &parts {
                let inside: Vec<&DividedFile> =
                    files.iter().filter(|file| covers(part, &file.path)).collect();
                let tokens: u64 = inside.iter().map(|file| file.tokens()).sum();
                prop_assert!(inside.len() <= max_files as usize);
                prop_assert!(tokens <= max_tokens || inside.len() == 1);
            }
            let titles: BTreeSet<&str> = parts.iter().map(|part| part.title.as_str()).collect();
            prop_assert_eq!(titles.len(), parts.len());
            prop_assert!(steps.len() <= max_parts as usize);
        }
    }
}
