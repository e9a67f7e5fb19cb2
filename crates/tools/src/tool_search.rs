//! [`ToolSearch`]: finds tools that requests do not declare because there are too many.

use cleveragents_domain::MicroUsd;
use serde_json::{Value, json};

use crate::capability::Capability;
use crate::gate::Permit;
use crate::name::ToolName;
use crate::spec::{Category, DEFAULT_TIMEOUT, Ground, Source, ToolSpec};
use crate::tool::{Answer, Body, Call, Failure, Grounds, Prepared, Subject, Tool, Unprepared};

/// The number of tools that a search returns.
const MOST_FOUND: usize = 8;

/// A tool that can be found.
#[derive(Debug, Clone)]
pub struct Findable {
    /// What the model is told when it finds the tool.
    pub spec: ToolSpec,
    /// The words that are searched besides the name.
    pub about: String,
}

impl From<&ToolSpec> for Findable {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            spec: spec.clone(),
            about: spec.description.clone(),
        }
    }
}

/// Finds tools by words. The turn declares what it found in its later requests.
pub struct ToolSearch {
    spec: ToolSpec,
    tools: Vec<Findable>,
}

impl ToolSearch {
    /// The name of the search that the program adds where a provider accepts fewer tools than there are.
    pub fn builtin_name() -> ToolName {
        ToolName::builtin("search-tools")
    }

    /// A search among the tools of MCP servers.
    pub fn of_servers(name: ToolName, tools: Vec<Findable>) -> Self {
        Self::new(
            name,
            Source::Mcp,
            Category::External,
            "tools of MCP servers",
            tools,
        )
    }

    pub(crate) fn builtin(tools: Vec<Findable>) -> Self {
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
        tools: Vec<Findable>,
    ) -> Self {
        let description = format!(
            "Finds {among} by words. There are {} that are not listed here; those it finds are \
             added to your tools, and can be called in your next answer.",
            tools.len()
        );
        let input_schema = json!({
            "type": "object",
            "properties": {"query": {
                "type": "string",
                "minLength": 1,
                "description": "What the tool should do, in a few words.",
            }},
            "required": ["query"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            name,
            description,
            source,
            category,
            ground: Ground::Nothing,
            input_schema,
            output_schema: None,
            capability: Capability::reads(),
            resources: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            cost: MicroUsd(0),
        };
        Self { spec, tools }
    }

    /// The tools that fit best, the best first. A word in the name counts more than one in the
    /// description; what counts the same is in the order of names.
    fn find(&self, query: &str) -> Vec<&ToolSpec> {
        let query: Vec<String> = words(query);
        let mut found: Vec<(u32, &ToolSpec)> = self
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
        found.sort_by(|one, other| {
            let names = || one.1.name.cmp(&other.1.name);
            other.0.cmp(&one.0).then_with(names)
        });
        let found = found.into_iter().take(MOST_FOUND);
        found.map(|(_, spec)| spec).collect()
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
        _grounds: Grounds<'a>,
    ) -> Result<Box<dyn Prepared + 'a>, Unprepared> {
        let query = arguments.get("query").and_then(Value::as_str);
        Ok(Box::new(Searching {
            search: self,
            query: query.unwrap_or_default().to_owned(),
        }))
    }
}

struct Searching<'a> {
    search: &'a ToolSearch,
    query: String,
}

impl Prepared for Searching<'_> {
    fn subjects(&self) -> Vec<Subject> {
        vec![Subject::Text(self.query.clone())]
    }

    fn run(self: Box<Self>, _permit: Permit, _call: &mut Call<'_>) -> Result<Answer, Failure> {
        let found: Vec<Value> = self
            .search
            .find(&self.query)
            .into_iter()
            .map(|spec| {
                json!({
                    "name": spec.name.wire_name(),
                    "description": spec.description,
                    "input_schema": spec.input_schema,
                })
            })
            .collect();
        let note = found
            .is_empty()
            .then(|| "no tool fits; try other words".to_owned());
        Ok(Answer {
            body: Body::Json(Value::Array(found)),
            ..Answer::written()
        }
        .noting(note))
    }
}
