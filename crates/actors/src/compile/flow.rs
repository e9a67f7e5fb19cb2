//! Compiles control flow: conditions in all their forms, checks, and rules of routers.

use cleveragents_domain::DefinitionFault;
use serde_json::Value;

use super::Compiler;
use super::argument::{expression, is_key};
use super::graph::Targets;
use crate::expression::Expression;
use crate::file::{CHECK, CONDITION, Fields, RULE, Tree, WithPosition, broken_rule, list, text};
use crate::graph::{ConditionalNode, NodeIndex, RouterNode, RouterRule, TextMatch};

impl<'c> Compiler<'c> {
    /// Parses a condition: an expression, or a map that compares a key with a value.
    pub(super) fn condition(
        &self,
        tree: &'c WithPosition<Tree>,
    ) -> Result<Expression, DefinitionFault> {
        match &tree.value {
            Tree::Map(_) => {
                let fields = self.open(tree, &CONDITION)?;
                fields.word("type", &[("context_value", ())])?;
                let key = text(fields.needed("context_value", "a condition")?)?;
                let value = fields.needed("equals", "a condition")?;
                equality(&key, &value.value.json())
            }
            // `condition: true` and `condition: false` are expressions too.
            Tree::Bool(value) => expression(&WithPosition::new(value.to_string(), tree.place)),
            _ => expression(&text(tree)?),
        }
    }

    pub(super) fn conditional(
        &self,
        fields: &Fields<'c>,
        targets: &Targets<'_>,
    ) -> Result<ConditionalNode, DefinitionFault> {
        let mut conditions = Vec::new();
        if let Some(tree) = fields.get("if") {
            let then = text(fields.needed("then", "a conditional node with `if`")?)?;
            conditions.push((self.condition(tree)?, targets.find(&then)?));
        }
        for check in fields.get("conditions").map_or(Ok(&[][..]), list)? {
            let check = self.open(check, &CHECK)?;
            let target = text(check.needed("route_to", "a check")?)?;
            let condition = self.condition(check.needed("check", "a check")?)?;
            conditions.push((condition, targets.find(&target)?));
        }
        if conditions.is_empty() {
            let message = "the conditional node has no conditions";
            let fix = "add `if: …` with `then: …`, or `conditions: [{check: …, route_to: …}]`";
            return Err(broken_rule(fields.place, message, fix));
        }
        Ok(ConditionalNode {
            conditions,
            otherwise: targets.field(fields, "otherwise")?,
        })
    }

    pub(super) fn router(
        &self,
        fields: &Fields<'c>,
        targets: &Targets<'_>,
    ) -> Result<RouterNode, DefinitionFault> {
        let rules = list(fields.needed("rules", "a router")?)?;
        Ok(RouterNode {
            message: fields
                .text("message")?
                .map(|text| expression(&text))
                .transpose()?,
            rules: rules
                .iter()
                .map(|rule| self.rule(rule, targets))
                .collect::<Result<_, _>>()?,
            otherwise: targets.field(fields, "otherwise")?,
        })
    }

    fn rule(
        &self,
        tree: &'c WithPosition<Tree>,
        targets: &Targets<'_>,
    ) -> Result<RouterRule, DefinitionFault> {
        let fields = self.open(tree, &RULE)?;
        let target: NodeIndex = targets.find(&text(fields.needed("target", "a rule")?)?)?;
        let mut matches = Vec::new();
        for (field, kind) in TEXT_MATCHES {
            if let Some(text) = fields.text(field)? {
                matches.push(kind(text.value));
            }
        }
        if let Some(kind) = fields.word("type", TEXT_MATCHES)? {
            matches.push(kind(
                text(fields.needed("value", "a rule with a `type`")?)?.value,
            ));
        } else if let Some(value) = fields.text("value")? {
            let message = "the rule has a `value` but no `type`";
            let fix = "add `type: prefix`, `contains`, `suffix` or `equals`";
            return Err(broken_rule(value.place, message, fix));
        }
        if let Some(tree) = fields.get("condition") {
            matches.push(self.rule_condition(tree)?);
        }
        if matches.len() > 1 {
            let message = "a rule can have only one condition";
            let fix = "write one rule for each condition";
            return Err(broken_rule(fields.place, message, fix));
        }
        Ok(RouterRule {
            text_match: matches.pop().unwrap_or(TextMatch::Always),
            target,
            strip: fields.flag("strip")?.unwrap_or(true),
        })
    }

    /// Parses the legacy form of a rule, which compares the text, or a key of the state, with a value.
    fn rule_condition(&self, tree: &'c WithPosition<Tree>) -> Result<TextMatch, DefinitionFault> {
        if matches!(tree.value, Tree::Map(_)) {
            let fields = self.open(tree, &CONDITION)?;
            if fields.get("context_value").is_none()
                && let Some(value) = fields.text("equals")?
            {
                return Ok(TextMatch::Equals(value.value));
            }
        }
        Ok(TextMatch::Check(self.condition(tree)?))
    }
}

type TextMatchConstructor = fn(String) -> TextMatch;

const TEXT_MATCHES: &[(&str, TextMatchConstructor)] = &[
    ("prefix", TextMatch::Prefix),
    ("contains", TextMatch::Contains),
    ("suffix", TextMatch::Suffix),
    ("equals", TextMatch::Equals),
];

/// Compares a key of the state with a value. An unset key does not equal any value.
fn equality(key: &WithPosition<String>, value: &Value) -> Result<Expression, DefinitionFault> {
    let path = &key.value;
    if !path.split('.').all(is_key) {
        let message = format!("`{path}` is not a key of the state");
        let fix = "write a key, such as `status` or `review.score`";
        return Err(broken_rule(key.place, message, fix));
    }
    let text = format!("{path} is defined and {path} == {}", literal(value));
    expression(&WithPosition::new(text, key.place))
}

/// A value in the syntax of expressions.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", Value::String(name.clone()), literal(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}
