//! [`Section`]: the fields that a map in a file may have. The reader, the JSON schema and the error messages use the
//! same tables, so they cannot differ. The tables are in `tables.rs`.

use std::collections::HashMap;
use std::sync::OnceLock;

/// The fields that a map may have.
pub(crate) struct Section {
    /// Object that the map describes, as error messages name it, such as `an actor`.
    pub(crate) title: &'static str,
    /// Fields, in groups that several sections share.
    pub(crate) groups: &'static [&'static [Field]],
    index: OnceLock<HashMap<&'static str, &'static Field>>,
}

/// A field of a map.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Alternative names.
    pub(crate) aliases: &'static [&'static str],
    /// Allowed values.
    pub(crate) form: Form,
    /// Handling of the field.
    pub(crate) usage: FieldUse,
    /// Description for users.
    pub(crate) about: &'static str,
}

/// Handling of a field.
pub(crate) enum FieldUse {
    Read,
    /// The field contains a map whose fields count as fields of the surrounding map.
    Nested,
    /// The field is ignored, with a warning that contains this reason.
    Ignored(&'static str),
    /// The file is refused. Contains the reason and the fix.
    Refused(&'static str, &'static str),
}

/// Allowed values of a field.
pub(crate) enum Form {
    Text,
    /// One text or a list of texts.
    Texts,
    Number,
    Count,
    Flag,
    Any,
    /// A map with any fields.
    AnyMap,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A map.
    Map(&'static Section),
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

    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static Field> + Clone + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// Primary names of the fields that are read.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.fields()
            .filter(|field| matches!(field.usage, FieldUse::Read | FieldUse::Nested))
            .map(|field| field.name)
    }

    /// The field with this name or alias.
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
            usage: FieldUse::Read,
            about,
        }
    }

    /// Adds alternative names.
    pub(crate) const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Changes how the field is handled.
    pub(crate) const fn used(self, usage: FieldUse) -> Self {
        // Not `Self { usage, ..self }`, because that would drop the old value, which a const function cannot do.
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
