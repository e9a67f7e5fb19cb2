//! What the models of a run said and thought, to be kept with what was decided because of it.

use cleveragents_domain::{RunId, Turn};
use cleveragents_models::{AssistantMessage, ChatMessage};
use cleveragents_store::{runs, turns};
use serde_json::Value;

use super::error::RunServiceError;
use super::service::RunService;

/// So many bytes of a trace are kept, its end: there is the answer.
const LONGEST: usize = 64 * 1024;

impl RunService {
    /// Everything that models were told and said in a run, in the order in which it happened.
    pub(crate) fn conversation(&self, id: RunId) -> Result<Vec<Value>, RunServiceError> {
        Ok(self.engine.read(|reader| {
            let mut asked: Vec<Turn> = Vec::new();
            if runs::get(reader, &self.visible, id)?.is_none() {
                return Ok(Vec::new());
            }
            for session in runs::sessions(reader, id)? {
                asked.extend(turns::of_session(reader, session)?);
            }
            // Ids of conversations follow from the run, those of turns from the moment.
            asked.sort_by_key(|turn| turn.id);
            let mut said = Vec::new();
            for turn in asked {
                said.extend(turns::steps(reader, turn.id)?);
            }
            Ok::<_, cleveragents_store::Error>(said)
        })?)
    }

    /// What models said and thought in a run, in the order in which they did; nothing when none was asked.
    pub fn trace(&self, id: RunId) -> Result<Option<String>, RunServiceError> {
        let said = self.conversation(id)?.into_iter();
        let answers: Vec<AssistantMessage> = said
            .filter_map(|step| match serde_json::from_value(step) {
                Ok(ChatMessage::Assistant(answer)) => Some(answer),
                _ => None,
            })
            .collect();
        Ok(told(&answers))
    }
}

/// Answers as one text: what was thought before what was said.
fn told(answers: &[AssistantMessage]) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for answer in answers {
        for thought in &answer.reasoning {
            let thought = thought.text.trim();
            if !thought.is_empty() {
                parts.push(format!("Thought:\n{thought}"));
            }
        }
        let text = answer.text.trim();
        if !text.is_empty() {
            parts.push(format!("Said:\n{text}"));
        }
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The end of a trace, with a word about what is missing.
pub(crate) fn bounded(trace: &str) -> String {
    if trace.len() <= LONGEST {
        return trace.to_owned();
    }
    let from = trace.ceil_char_boundary(trace.len() - LONGEST);
    format!("[the first {from} bytes are left out]\n{}", &trace[from..])
}

#[cfg(test)]
mod tests {
    use cleveragents_models::{AssistantMessage, Reasoning};

    use super::{LONGEST, bounded, told};

    #[test]
    fn thoughts_come_before_what_was_said_and_sealed_ones_are_not_there() {
        let thought = |text: &str| Reasoning {
            text: text.to_owned(),
            provider: "scripted".to_owned(),
            seal: None,
            after_text: 0,
            after_calls: 0,
        };
        let first = AssistantMessage {
            reasoning: vec![thought("hm"), thought("")],
            ..AssistantMessage::default()
        };
        let second = AssistantMessage {
            text: "so be it\n".to_owned(),
            ..AssistantMessage::default()
        };
        assert_eq!(
            told(&[first, second]).as_deref(),
            Some("Thought:\nhm\n\nSaid:\nso be it")
        );
        assert_eq!(told(&[AssistantMessage::default()]), None);
    }

    #[test]
    fn of_a_long_trace_the_end_is_kept_and_it_says_so() {
        let short = "é".repeat(LONGEST / 2);
        assert_eq!(bounded(&short), short);
        let long = format!("x{short}!");
        let kept = bounded(&long);
        let (word, rest) = kept.split_once('\n').expect("two parts");
        assert_eq!(word, "[the first 3 bytes are left out]");
        assert_eq!(rest, &long[3..]);
        assert!(rest.len() <= LONGEST);
    }
}
