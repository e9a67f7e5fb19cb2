//! [`Mode`]: the degree of automation, in four steps. Each stands for a built-in automation profile.

use std::str::FromStr;

/// Degree of automation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reads and proposes; changes nothing.
    Plan,
    /// Asks before a strategy is executed, and before the result is applied.
    Ask,
    /// Edits and runs commands in the sandbox; asks before the result is applied.
    Edit,
    /// Also applies the result when all required checks pass.
    Auto,
}

impl Mode {
    /// All modes, the most careful first.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Ask, Self::Edit, Self::Auto];

    /// The names of [`Self::ALL`].
    pub const NAMES: [&'static str; 4] = ["plan", "ask", "edit", "auto"];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Edit => "edit",
            Self::Auto => "auto",
        }
    }

    /// Description of the mode in one line.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Plan => "reads and proposes; changes nothing",
            Self::Ask => "asks before execution and before apply",
            Self::Edit => "works in the sandbox; asks before apply",
            Self::Auto => "works in the sandbox; applies when all required checks pass",
        }
    }

    /// The built-in automation profile of plans in this mode.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::Plan | Self::Ask => "supervised",
            Self::Edit => "auto",
            Self::Auto => "ci",
        }
    }

    /// The mode of plans with this automation profile; `None` for profiles that are not modes.
    pub fn of_profile(profile: &str) -> Option<Self> {
        let mut modes = [Self::Ask, Self::Edit, Self::Auto].into_iter();
        modes.find(|mode| mode.profile() == profile)
    }

    /// Whether tools that write are refused in conversations of this mode.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::Plan)
    }

    /// Whether a task stops after its strategy, without asking whether to execute it.
    pub const fn stops_after_strategy(self) -> bool {
        matches!(self, Self::Plan)
    }
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut modes = Self::ALL.into_iter();
        modes.find(|mode| mode.as_str() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::{AutomationGate, AutomationProfile};

    use super::Mode;

    #[test]
    fn modes_ask_as_their_descriptions_state() {
        for (mode, asks_to_start, asks_to_apply) in [
            (Mode::Plan, true, true),
            (Mode::Ask, true, true),
            (Mode::Edit, false, true),
            (Mode::Auto, false, false),
        ] {
            let profile = AutomationProfile::find_built_in(mode.profile()).expect("built in");
            let asks = |gate| profile.thresholds.threshold(gate) >= 1.0;
            assert!(!asks(AutomationGate::Strategize), "{mode:?}");
            assert_eq!(
                asks(AutomationGate::StartExecution),
                asks_to_start,
                "{mode:?}"
            );
            assert_eq!(asks(AutomationGate::Apply), asks_to_apply, "{mode:?}");
            assert!(
                profile.require_sandbox && profile.require_checkpoints,
                "{mode:?}"
            );
            assert!(!profile.allow_unsafe_tools, "{mode:?}");
        }
    }

    #[test]
    fn edit_and_auto_leave_no_decision_to_the_user() {
        for mode in [Mode::Edit, Mode::Auto] {
            let profile = AutomationProfile::find_built_in(mode.profile()).expect("built in");
            for gate in [
                AutomationGate::StrategyDecision,
                AutomationGate::ExecutionDecision,
                AutomationGate::FixValidations,
                AutomationGate::RetryStep,
            ] {
                assert!(
                    profile.thresholds.threshold(gate) <= 0.0,
                    "{mode:?} {gate:?}"
                );
            }
        }
    }

    #[test]
    fn names_and_profiles_are_found_again() {
        for (mode, name) in Mode::ALL.into_iter().zip(Mode::NAMES) {
            assert_eq!(mode.as_str(), name);
            assert_eq!(name.parse(), Ok(mode));
        }
        assert_eq!("full-auto".parse::<Mode>(), Err(()));
        assert_eq!(Mode::of_profile("supervised"), Some(Mode::Ask));
        assert_eq!(Mode::of_profile("ci"), Some(Mode::Auto));
        assert_eq!(Mode::of_profile("cautious"), None);
    }
}
