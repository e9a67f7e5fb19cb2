//! [`registry`]: a registry with the tools of skills, with the skills' overrides applied.

use std::sync::Arc;

use cleveragents_tools::{Registry, RegistryError, TightenError, Tool, ToolName};

use crate::agent::{self, AgentSkill};
use crate::flat::{FlattenedSkill, Origin};

/// Creates a registry with the tools of `skills`, and with the tools in `all` that `others` names.
pub fn registry(
    all: &Registry,
    skills: &[FlattenedSkill],
    others: &[ToolName],
) -> Result<Registry, TightenError> {
    let mut names: Vec<ToolName> = others.to_vec();
    for tool in skills.iter().flat_map(|flat| &flat.tools) {
        if matches!(tool.origin, Origin::Registered) {
            names.push(tool.spec.name.clone());
        }
    }
    let mut registry = all.narrowed(|spec| names.contains(&spec.name));
    let mut agents: Vec<AgentSkill> = Vec::new();
    for flat in skills {
        for tool in &flat.tools {
            let name = tool.spec.name.to_string();
            match &tool.origin {
                Origin::Registered => {}
                Origin::Anonymous(custom) => {
                    match registry.remove(&name) {
                        Ok(_) | Err(RegistryError::NotFound { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                    registry.add(Arc::clone(custom) as Arc<dyn Tool>)?;
                }
                Origin::Agent => continue,
            }
            for change in &tool.changes {
                registry.tighten(&name, change)?;
            }
        }
        for (skill, _) in &flat.agent_skills {
            agents.retain(|other| other.name != skill.name);
            agents.push(skill.clone());
        }
    }
    for tool in agent::tools(&agents) {
        registry.add(tool)?;
    }
    Ok(registry)
}
