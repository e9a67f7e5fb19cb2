//! STUB for compile
use cleveragents_domain::*;
use std::sync::Arc;
pub struct Validation {
    pub name: String,
    pub description: String,
    pub mode: ValidationMode,
}
pub struct InEffect {
    pub attachment_id: AttachmentId,
    pub validation: Validation,
    pub definition_hash: String,
    pub resource: String,
    pub scope: ValidationScope,
    pub scope_target: Option<String>,
}
pub struct Judgement {
    pub passed: bool,
    pub message: String,
    pub data: Option<serde_json::Value>,
    pub output: Vec<u8>,
    pub duration: std::time::Duration,
}
#[derive(Clone)]
pub struct ValidationService;
impl ValidationService {
    pub fn new(_: Arc<cleveragents_store::Engine>) -> Self {
        Self
    }
    pub fn for_plan(
        &self,
        _: PlanId,
        _: &[ProjectId],
        _: &[ResourceId],
    ) -> Result<Vec<InEffect>, cleveragents_store::Error> {
        Ok(vec![])
    }
}
pub fn judge(
    _: &InEffect,
    _: &crate::tool::SandboxWorkspace,
    _: &cleveragents_process::Cancel,
    _: &dyn Fn(&str, &serde_json::Value) -> Result<String, String>,
) -> Result<Judgement, cleveragents_store::Error> {
    todo!()
}
pub fn judge_command(
    _: &str,
    _: &crate::tool::SandboxWorkspace,
    _: &cleveragents_process::Cancel,
) -> Result<Judgement, cleveragents_store::Error> {
    todo!()
}
