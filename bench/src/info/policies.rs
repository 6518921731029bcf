//! The path policies, rail policies, controllers and loss recovery methods that a name selects.

use braid::congestion::{controller_examples, controller_names};
use braid::{CcConfig, LbPolicy, LossRecovery, RailScheme};
use serde::Serialize;

/// A policy that a name selects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Choice {
    pub(super) name: &'static str,
    /// The name with its required parameters; absent if the name is sufficient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) example: Option<&'static str>,
    pub(super) default: bool,
}

/// Returns choices without parameters.
fn by_name<T: Default + PartialEq>(
    all: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> &'static str,
) -> Vec<Choice> {
    let default = T::default();
    let choice = |it: T| Choice { name: name(&it), example: None, default: it == default };
    all.into_iter().map(choice).collect()
}

/// Returns the path policies (`--lb`).
pub(super) fn of_paths() -> Vec<Choice> {
    by_name(LbPolicy::ALL, |policy| policy.name())
}

/// Returns the rail policies (`--rail-policy`).
pub(super) fn of_rails() -> Vec<Choice> {
    by_name(RailScheme::ALL, |policy| policy.name())
}

/// Returns the controllers (`--cc`).
pub(super) fn of_congestion() -> Vec<Choice> {
    let default = CcConfig::default().to_string();
    let default = default.split(':').next();
    let choice = |(name, example)| {
        let example = Some(example).filter(|example| *example != name);
        Choice { name, example, default: default == Some(name) }
    };
    controller_names().zip(controller_examples()).map(choice).collect()
}

/// Returns the loss recovery methods (`--loss-recovery`).
pub(super) fn of_losses() -> Vec<Choice> {
    by_name(LossRecovery::all(), |recovery| recovery.name())
}
