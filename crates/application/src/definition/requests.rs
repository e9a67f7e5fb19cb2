//! Requests common to all kinds of definitions: register a text, show one by name, remove one by name.

use cleveragents_store::definitions::StoredDefinition;

use super::{DefinitionService, DefinitionType};
use crate::operation::{OperationError, RemovedDefinition, confirm_removal};

/// Defines the request that registers a definition. `run` receives the context, the text and the
/// [`Register`](crate::Register) mode.
macro_rules! add_request {
    (
        $(#[$about:meta])*
        $request:ident($operation:literal, $summary:literal) -> $response:ty;
        update: $update:tt;
        run: $run:expr;
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $request {
            /// The YAML text of the definition.
            pub text: String,
            /// The absolute path of the file that holds the text. Ignored for callers on other machines.
            #[serde(default)]
            pub source: Option<String>,
            #[doc = $update]
            #[serde(default)]
            pub update: bool,
        }

        impl $crate::operation::Operation for $request {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const REQUIREMENT: $crate::operation::Requirement =
                $crate::operation::Requirement::registry(
                    cleveragents_domain::identity::Permission::Manage,
                );
            type Response = $response;

            fn resolve(
                &mut self,
                resolver: &mut $crate::operation::Resolver<'_>,
            ) -> Result<(), $crate::operation::OperationError> {
                resolver.definition(&mut self.text)
            }

            fn run(
                self,
                context: &$crate::operation::OperationContext,
            ) -> Result<$response, $crate::operation::OperationError> {
                let source = context.source_of(self.source.as_deref());
                let text = $crate::definition::DefinitionText {
                    text: &self.text,
                    source: &source,
                };
                $run(context, text, $crate::operation::register_mode(self.update))
            }
        }
    };
}

/// Defines the request that shows one definition. `run` receives the context and the complete name.
macro_rules! show_request {
    (
        $(#[$about:meta])*
        $request:ident($operation:literal, $summary:literal) -> $response:ty;
        $(name: $name:tt;)?
        run: $run:expr;
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $request {
            $(#[doc = $name])?
            pub name: String,
        }

        impl $crate::operation::Operation for $request {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const REQUIREMENT: $crate::operation::Requirement =
                $crate::operation::Requirement::registry(
                    cleveragents_domain::identity::Permission::Read,
                );
            type Response = $response;

            fn resolve(
                &mut self,
                resolver: &mut $crate::operation::Resolver<'_>,
            ) -> Result<(), $crate::operation::OperationError> {
                resolver.name(&mut self.name, $crate::operation::NamedKind::Definition)
            }

            fn run(
                self,
                context: &$crate::operation::OperationContext,
            ) -> Result<$response, $crate::operation::OperationError> {
                $run(context, &self.name)
            }
        }
    };
}

/// Defines the request that removes a definition. `run` receives the context, the name and the confirmation.
macro_rules! remove_request {
    (
        $(#[$about:meta])*
        $request:ident($operation:literal, $summary:literal);
        run: $run:expr;
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $request {
            pub name: String,
            /// Confirms the removal; without it nothing is removed.
            #[serde(default)]
            pub yes: bool,
            /// Returns what would be removed, and changes nothing.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub dry_run: bool,
        }

        impl $crate::operation::Operation for $request {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const REQUIREMENT: $crate::operation::Requirement =
                $crate::operation::Requirement::registry(
                    cleveragents_domain::identity::Permission::Manage,
                );
            type Response = $crate::operation::RemovedDefinition;

            fn resolve(
                &mut self,
                resolver: &mut $crate::operation::Resolver<'_>,
            ) -> Result<(), $crate::operation::OperationError> {
                resolver.name(&mut self.name, $crate::operation::NamedKind::Definition)
            }

            fn run(
                self,
                context: &$crate::operation::OperationContext,
            ) -> Result<$crate::operation::RemovedDefinition, $crate::operation::OperationError>
            {
                $run(&context.rehearsing(self.dry_run), &self.name, self.yes)
            }
        }
    };
}

pub(crate) use {add_request, remove_request, show_request};

/// Removes a definition if the removal is confirmed. `check` may refuse the removal before that.
pub(crate) fn remove_confirmed<T: DefinitionType>(
    service: &DefinitionService<T>,
    reading: T::Reading<'_>,
    name: &str,
    yes: bool,
    check: impl FnOnce(&StoredDefinition) -> Result<(), OperationError>,
) -> Result<RemovedDefinition, OperationError>
where
    OperationError: From<T::Error>,
{
    let found = service.find_stored(name, reading)?;
    check(&found)?;
    confirm_removal(&found.name, yes)?;
    let removed = service.remove(&found.name, reading)?;
    Ok(RemovedDefinition {
        removed: removed.name,
        config: removed.source,
    })
}

/// Error for a definition that the configuration key `key` refers to.
pub(crate) fn named_by_configuration<T: DefinitionType>(
    name: &str,
    key: &str,
) -> super::DefinitionError {
    super::DefinitionError::InUse {
        kind: T::KIND,
        name: name.to_owned(),
        by: vec![format!("the configuration, as `{key}`")],
    }
}
