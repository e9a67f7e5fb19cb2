//! [`Section`]: which fields a map of a file may have. One table is behind the reader, the JSON schema
//! and the words of complaints, so the three cannot differ. The tables are in `tables.rs`.

use std::collections::HashMap;
use std::sync::OnceLock;

/// The fields that a map may have.
pub(crate) struct Section {
    /// What the map is, with its article.
    pub(crate) title: &'static str,
    /// The fields, in groups that several sections share.
    pub(crate) groups: &'static [&'static [Field]],
    index: OnceLock<HashMap<&'static str, &'static Field>>,
}

/// A field.
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: &'static str,
    /// Other names that mean the same.
    pub(crate) aliases: &'static [&'static str],
    /// What may be written there.
    pub(crate) form: Form,
    /// What is done with it.
    pub(crate) usage: Use,
    /// What it means, for people.
    pub(crate) about: &'static str,
}

/// What is done with a field.
pub(crate) enum Use {
    /// It is read.
    Read,
    /// Its fields count as if they stood beside it.
    Nested,
    /// It is passed over, and a warning says why.
    Ignored(&'static str),
    /// The file is refused: why, and what to do.
    Refused(&'static str, &'static str),
}

/// What may be written in a field.
pub(crate) enum Form {
    Text,
    /// One text or a list of them.
    Texts,
    Number,
    Count,
    Flag,
    Any,
    /// A map with any fields.
    Values,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A map.
    One(&'static Section),
    /// A list of maps.
    Each(&'static Section),
    /// A map of names to maps.
    Named(&'static Section),
    /// A map of names to any of these.
    NamedAnyOf(&'static [Self]),
    /// A list of any of these.
    EachAnyOf(&'static [Self]),
    /// Any of these.
    AnyOf(&'static [Self]),
}

impl Section {
    pub(crate) const fn new(title: &'static str, groups: &'static [&'static [Field]]) -> Self {
        Self {
            title,
            groups,
            index: OnceLock::new(),
        }
    }

    /// Every field.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static Field> + Clone + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The first names of the fields that are read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.fields()
            .filter(|field| matches!(field.usage, Use::Read | Use::Nested))
            .map(|field| field.name)
    }

    /// The field of this name or alias.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        let index = self.index.get_or_init(|| {
            self.fields()
                .flat_map(|field| {
                    std::iter::once(&field.name)
                        .chain(field.aliases)
                        .map(move |name| (*name, field))
                })
                .collect()
        });
        index.get(name).copied()
    }
}

impl Field {
    pub(crate) const fn new(name: &'static str, form: Form, about: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            form,
            usage: Use::Read,
            about,
        }
    }

    /// The same with other names.
    pub(crate) const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// The same, put to another use.
    pub(crate) const fn used(self, usage: Use) -> Self {
        // Written out: a constant function drops nothing.
        let Self {
            name,
            aliases,
            form,
            usage: _,
            about,
        } = self;
        Self {
            name,
            aliases,
            form,
            usage,
            about,
        }
    }
}
