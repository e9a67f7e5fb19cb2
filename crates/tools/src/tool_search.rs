//! [`ToolSearch`]: finds tools that are not declared because too many are available.

use cleveragents_domain::MicroUsd;
use serde_json::{Value, json};

use crate::capability::Capability;
use crate::gate::Permit;
use crate::name::ToolName;
use crate::spec::{Category, DEFAULT_TIMEOUT, Source, ToolSpec, WorkspaceNeed};
use crate::tool::{
    Answer, Body, Call, Failure, PrepareContext, PrepareError, PreparedCall, Subject, Tool,
};

/// Maximum number of tools that a search returns.
const MAX_RESULTS: usize = 8;

/// A tool that can be searched.
#[derive(Debug, Clone)]
pub struct SearchableTool {
    /// Specification returned to the model.
    pub spec: ToolSpec,
    /// Text that is searched in addition to the name.
    pub about: String,
}

impl From<&ToolSpec> for SearchableTool {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            spec: spec.clone(),
            about: spec.description.clone(),
        }
    }
}

/// A tool that finds other tools by keywords. The later requests of the same turn declare the tools that it found.
pub struct ToolSearch {
    spec: ToolSpec,
    tools: Vec<SearchableTool>,
}

impl ToolSearch {
    /// Name of the search that is added when a provider accepts fewer tools than are available.
    pub fn builtin_name() -> ToolName {
        ToolName::builtin("search-tools")
    }

    /// Creates a search among the tools of MCP servers.
    pub fn of_servers(name: ToolName, tools: Vec<SearchableTool>) -> Self {
        Self::new(
            name,
            Source::Mcp,
            Category::External,
            "tools of MCP servers",
            tools,
        )
    }

    pub(crate) fn builtin(tools: Vec<SearchableTool>) -> Self {
        let (source, category) = (Source::Builtin, Category::Conversation);
        Self::new(
            Self::builtin_name(),
            source,
            category,
            "further tools",
            tools,
        )
    }

    fn new(
        name: ToolName,
        source: Source,
        category: Category,
        among: &str,
        tools: Vec<SearchableTool>,
    ) -> Self {
        let description = format!(
            "Finds {among} by keywords. {} are not listed here; the tools it finds are \
             added to your tools and can be called in your next response.",
            tools.len()
        );
        let input_schema = json!({
            "type": "object",
            "properties": {"query": {
                "type": "string",
                "minLength": 1,
                "description": "Keywords that describe what the tool does.",
            }},
            "required": ["query"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            name,
            description,
            source,
            category,
            workspace_need: WorkspaceNeed::None,
            input_schema,
            output_schema: None,
            capability: Capability::reads(),
            resources: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            cost: MicroUsd(0),
        };
        Self { spec, tools }
    }

    /// Returns the best matches, best first. A word in the name scores higher than a word in the
    /// description; ties are sorted by name.
    fn find(&self, query: &str) -> Vec<&ToolSpec> {
        let query: Vec<String> = words(query);
        let mut matches: Vec<(u32, &ToolSpec)> = self
            .tools
            .iter()
            .filter_map(|tool| {
                let name = tool.spec.name.to_string();
                let (in_name, about) = (words(&name), words(&tool.about));
                let score: u32 = query
                    .iter()
                    .map(|word| {
                        let begins = |other: &&String| other.starts_with(word.as_str());
                        if in_name.contains(word) {
                            8
                        } else if in_name.iter().any(|other| begins(&other)) {
                            5
                        } else if about.contains(word) {
                            3
                        } else {
                            u32::from(about.iter().any(|other| begins(&other)))
                        }
                    })
                    .sum();
                (score > 0).then_some((score, &tool.spec))
            })
            .collect();
        matches.sort_by(|left, right| {
            let names = || left.1.name.cmp(&right.1.name);
            right.0.cmp(&left.0).then_with(names)
        });
        let best = matches.into_iter().take(MAX_RESULTS);
        best.map(|(_, spec)| spec).collect()
    }
}

/// The words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

impl Tool for ToolSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        arguments: Value,
        _context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError> {
        let query = arguments.get("query").and_then(Value::as_str);
        Ok(Box::new(PreparedSearch {
            search: self,
            query: query.unwrap_or_default().to_owned(),
        }))
    }
}

struct PreparedSearch<'a> {
    search: &'a ToolSearch,
    query: String,
}

impl PreparedCall for PreparedSearch<'_> {
    fn subjects(&self) -> Vec<Subject> {
        vec![Subject::Text(self.query.clone())]
    }

    fn run(self: Box<Self>, _permit: Permit, _call: &mut Call<'_>) -> Result<Answer, Failure> {
        let results: Vec<Value> = self
            .search
            .find(&self.query)
            .into_iter()
            .map(|spec| {
                json!({
                    "name": spec.name.declared_name(),
                    "description": spec.description,
                    "input_schema": spec.input_schema,
                })
            })
            .collect();
        let note = results
            .is_empty()
            .then(|| "no tool matches; try other keywords".to_owned());
        Ok(Answer {
            body: Body::Json(Value::Array(results)),
            ..Answer::written()
        }
        .with_note(note))
    }
}
