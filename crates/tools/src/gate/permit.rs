//! [`Permit`]: the right to run one prepared call. Nothing outside the gate can make one.

/// The right to run one prepared call. It is used up by running it.
///
/// ```compile_fail
/// let permit = cleveragents_tools::Permit(());
/// ```
///
/// ```compile_fail
/// let permit = cleveragents_tools::Permit::granted();
/// ```
#[derive(Debug)]
pub struct Permit(());

impl Permit {
    pub(super) const fn granted() -> Self {
        Self(())
    }
}
