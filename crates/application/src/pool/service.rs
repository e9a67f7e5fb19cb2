//! [`PoolService`]: the registered pools.

use std::path::Path;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{DefinitionFileError, DefinitionKind, PoolDefinition, PoolState};
use cleveragents_store::definitions::StoredDefinition;
use cleveragents_store::{Reader, UnitOfWork, attempts, pools};
use serde_json::Value;

use crate::definition::{DefinitionError, DefinitionService, DefinitionText, DefinitionType};

/// The registered pools.
pub type PoolService = DefinitionService<PoolDefinition>;

pub type PoolReading<'a> = Variables<'a>;

impl DefinitionType for PoolDefinition {
    const KIND: DefinitionKind = DefinitionKind::Pool;
    type Reading<'a> = Variables<'a>;
    type Error = DefinitionError;

    fn read(
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        Self::read(text.text, variables).map_err(|fault| {
            let error = fault.in_file(Path::new(text.source), Self::KIND, text.text);
            Box::new(error)
        })
    }

    fn schema() -> Value {
        Self::schema()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn on_insert(&self, unit: &mut UnitOfWork<'_>) -> Result<(), DefinitionError> {
        pools::insert(unit, &self.name, PoolState::Active)?;
        Ok(())
    }

    fn on_remove(
        unit: &mut UnitOfWork<'_>,
        removed: &StoredDefinition,
    ) -> Result<(), DefinitionError> {
        pools::remove(unit, &removed.name)?;
        Ok(())
    }

    /// Refuses the removal of a pool whose attempts run.
    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), DefinitionError> {
        let running = attempts::running(reader)?;
        let own = running.iter().filter(|attempt| attempt.pool == found.name);
        let by: Vec<String> = own
            .map(|attempt| format!("the attempt {}", attempt.id))
            .collect();
        if by.is_empty() {
            return Ok(());
        }
        Err(DefinitionError::InUse {
            kind: Self::KIND,
            name: found.name.clone(),
            by,
        })
    }
}
