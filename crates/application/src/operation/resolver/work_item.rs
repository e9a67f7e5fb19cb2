//! Resolution of work items.

use super::Resolver;
use crate::operation::OperationError;
use crate::work_item::{WorkItemError, WorkItemService};

impl Resolver<'_> {
    /// Resolves a work item, given by id or prefix. It belongs to the namespace of its project.
    pub fn work_item(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let given = reference.clone();
        let absent = || OperationError::from(WorkItemError::NotFound(given.clone()));
        let found = WorkItemService::new(context.engine()).resolve(reference);
        let found = found.map_err(|error| self.hide_unless_local(error.into(), absent))?;
        *reference = found.id.to_string();
        self.add_target(super::namespace_of(&found.project), Some(absent()));
        Ok(())
    }
}
