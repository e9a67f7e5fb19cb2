//! [`Permit`]: the right to run one prepared call. Only the gate can create one.

/// The right to run one prepared call. Running the call consumes it.
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
