//! `profile`: the source of the host values that a scenario does not give.

use super::model::Model;
use super::quantity::{Text, by_name};
use crate::host::HostConfig;

/// The source of the host values that a scenario does not give.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Profile {
    /// The hosts of the model.
    #[default]
    Model,
    /// The hosts as the engine runs them by default.
    Shipped,
}

impl Text for Profile {
    const WHAT: &'static str = "profile of hosts";
    const EXAMPLE: &'static str = "shipped";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [("model", Profile::Model), ("shipped", Profile::Shipped)];
        by_name("profile of hosts", text, &known)
    }
}

impl Profile {
    /// Returns the hosts before the scenario's keys.
    pub(super) fn host(self, model: Model) -> HostConfig {
        match self {
            Profile::Model => model.host(),
            Profile::Shipped => HostConfig::shipped(),
        }
    }
}
