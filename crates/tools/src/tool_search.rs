//! [`SearchTool`]: a search among tools that are too many to be told all.

use std::sync::Arc;

use cleveragents_tools::{
    Answer, Body, Call, Failure, Grounds, Permit, Prepared, Subject, Tool, ToolSpec, Unprepared,
};
use serde_json::{Value, json};

use crate::library::spec;
use crate::tool::McpTool;

/// So many tools a search tells.
const MOST_FOUND: usize = 8;

/// Finds tools that models are not told of.
pub(crate) struct SearchTool {
    spec: ToolSpec,
    tools: Vec<Arc<McpTool>>,
}

impl SearchTool {
    pub(crate) fn new(tools: Vec<Arc<McpTool>>) -> Self {
        let description = format!(
            "Finds tools of MCP servers by words. There are {} that are not listed here; those it \
             finds are added to your tools, and can be called in your next answer.",
            tools.len()
        );
        let schema = json!({
            "type": "object",
            "properties": {"query": {
                "type": "string",
                "minLength": 1,
                "description": "What the tool should do, in a few words.",
            }},
            "required": ["query"],
            "additionalProperties": false,
        });
        Self {
            spec: spec("search-tools", &description, schema),
            tools,
        }
    }

    /// The tools that fit best, the best first. A word in the name counts more than one in the
    /// description; what counts the same is in the order of names.
    fn find(&self, query: &str) -> Vec<&McpTool> {
        let query: Vec<String> = words(query);
        let mut found: Vec<(u32, &McpTool)> = self
            .tools
            .iter()
            .filter_map(|tool| {
                let name = tool.spec().name.to_string();
                let (in_name, about) = (words(&name), words(tool.description_alone()));
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
                (score > 0).then_some((score, &**tool))
            })
            .collect();
        found.sort_by(|one, other| {
            let names = || one.1.spec().name.cmp(&other.1.spec().name);
            other.0.cmp(&one.0).then_with(names)
        });
        found
            .into_iter()
            .take(MOST_FOUND)
            .map(|(_, tool)| tool)
            .collect()
    }
}

/// The words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

impl Tool for SearchTool {
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
    search: &'a SearchTool,
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
            .map(|tool| {
                let spec = tool.spec();
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
