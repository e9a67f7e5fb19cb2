//! [`SkillTools`]: the tools and descriptions that models receive from skills.

use cleveragents_domain::Name;
use cleveragents_domain::yaml::Variables;
use cleveragents_skills::agent::{AgentSkill, announce};
use cleveragents_skills::{FlatServer, FlattenedSkill, flatten, registry};
use cleveragents_tools::{Registry, ToolName};

use super::error::SkillError;
use super::service::{SkillService, library};

/// Skills prepared for models.
#[derive(Debug)]
pub struct SkillTools {
    /// All tools, including those of the skills, with the restrictions that the skills set.
    pub registry: Registry,
    skills: Vec<(Name, FlattenedSkill)>,
}

impl SkillService {
    /// Adds the content of skills to the available tools.
    pub fn assemble_tools(
        &self,
        names: &[String],
        tools: &Registry,
        variables: Variables<'_>,
    ) -> Result<SkillTools, SkillError> {
        let known = self.known(variables)?;
        let library = library(&known);
        let mut skills: Vec<(Name, FlattenedSkill)> = Vec::new();
        for name in names {
            let found = self.find(name, variables)?;
            let name = found.definition?.name().clone();
            if skills.iter().all(|(other, _)| *other != name) {
                let flat = flatten(&name, &library, tools)?;
                skills.push((name, flat));
            }
        }
        let flat: Vec<FlattenedSkill> = skills.iter().map(|(_, flat)| flat.clone()).collect();
        let others: Vec<ToolName> = tools.list().map(|spec| spec.name.clone()).collect();
        Ok(SkillTools {
            registry: registry(tools, &flat, &others)?,
            skills,
        })
    }
}

impl SkillTools {
    pub fn tools(&self, name: &str) -> Option<Vec<ToolName>> {
        let flat = self.flat(name)?;
        Some(
            flat.tools
                .iter()
                .map(|tool| tool.spec.name.clone())
                .collect(),
        )
    }

    /// The servers of all skills; their tools are not among [`tools`](Self::tools).
    pub fn servers(&self) -> impl Iterator<Item = &FlatServer> {
        self.skills.iter().flat_map(|(_, flat)| &flat.servers)
    }

    /// The names of the servers of one skill.
    pub fn servers_of(&self, name: &str) -> Vec<String> {
        let servers = self.flat(name).map(|flat| flat.servers.as_slice());
        let servers = servers.unwrap_or_default().iter();
        servers.map(|server| server.server.name.clone()).collect()
    }

    /// The description for a model of the agent skills that belong to the named skills, or to all skills if `names` is
    /// `None`. Empty if there are none.
    pub fn announcement(&self, names: Option<&[String]>) -> String {
        let mut agents: Vec<AgentSkill> = Vec::new();
        for (name, flat) in &self.skills {
            let is_named = |given: &String| given.parse::<Name>().is_ok_and(|given| given == *name);
            if names.is_none_or(|names| names.iter().any(is_named)) {
                for (skill, _) in &flat.agent_skills {
                    agents.retain(|other| other.name != skill.name);
                    agents.push(skill.clone());
                }
            }
        }
        announce(&agents)
    }

    fn flat(&self, name: &str) -> Option<&FlattenedSkill> {
        let name: Name = name.parse().ok()?;
        let found = self.skills.iter().find(|(other, _)| *other == name);
        found.map(|(_, flat)| flat)
    }
}
