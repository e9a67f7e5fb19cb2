//! [`stored_enum`]: enumerations whose values have one name, in the store, in files and in JSON.

/// Defines an enumeration. Each value has the name under which it is stored and printed.
macro_rules! stored_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name { $($(#[$about])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Stored and printed name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Parses the name.
            pub fn from_stored(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use stored_enum;
