//! `[rails]`: hosts that use several interfaces at once.

use braid_lb::RailScheme;
use braid_wire::MAX_RAILS;
use serde::Deserialize;
use toml::Spanned;

use super::error::Refusal;
use super::quantity::{Bytes, Parsed, Text, by_name};
use crate::host::{DataPath, HostConfig, NvLink};
use crate::time::Rate;
use crate::topology::Topology;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RailUseKeys {
    data_path: Option<Spanned<Parsed<DataPath>>>,
    policy: Option<Spanned<Parsed<RailScheme>>>,
    /// Maximum bytes of a chunk whose rail is planned.
    plan: Option<Spanned<Parsed<Bytes>>>,
    send_queue: Option<Spanned<Parsed<Bytes>>>,
    nvlink: Option<Spanned<Parsed<Rate>>>,
}

impl Text for DataPath {
    const WHAT: &'static str = "data path";
    const EXAMPLE: &'static str = "aligned";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [
            ("own", DataPath::Own),
            ("any-sender", DataPath::AnySender),
            ("aligned", DataPath::Aligned),
        ];
        by_name("data path", text, &known)
    }
}

impl Text for RailScheme {
    const WHAT: &'static str = "rail policy";
    const EXAMPLE: &'static str = "lpt";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: braid_lb::UnknownRailScheme| error.to_string())
    }
}

/// Checks that hosts have several interfaces, and no more than there can be rails.
fn check_rails(topology: &Topology) -> Result<(), String> {
    let rails = topology.nics.len() / topology.hosts().max(1) as usize;
    match (2..=MAX_RAILS).contains(&rails) {
        true => Ok(()),
        false => Err(format!(
            "rails are for hosts of 2 to {MAX_RAILS} interfaces, and these have {rails}; \
             give topology.rail_optimised as many rails, or remove it"
        )),
    }
}

impl RailUseKeys {
    /// Applies the keys to the hosts, all but the rate of NVLink.
    pub(super) fn apply(&self, host: &mut HostConfig, topology: &Topology) -> Result<(), Refusal> {
        self.check(topology)?;
        if let Some(key) = &self.data_path {
            host.data_path = key.get_ref().0;
        }
        if let Some(key) = &self.policy {
            host.rail_scheme = key.get_ref().0;
        }
        if self.plan.is_some() {
            host.data_path = DataPath::Own;
        }
        if let Some(key) = &self.send_queue {
            host.send_queue = key.get_ref().0.0;
        }
        Ok(())
    }

    /// Returns the maximum bytes of a chunk, if rails are planned.
    pub(super) fn plan(&self) -> Option<&Spanned<Parsed<Bytes>>> {
        self.plan.as_ref()
    }

    /// Returns the links between the GPUs of a host. `gpus`: those of each message.
    pub(super) fn nvlink(&self, gpus: Vec<(u32, u32)>) -> Option<NvLink> {
        let Parsed(rate) = *self.nvlink.as_ref()?.get_ref();
        Some(NvLink { rate, gpus })
    }

    fn check(&self, topology: &Topology) -> Result<(), Refusal> {
        let spans = [
            self.data_path.as_ref().map(Spanned::span),
            self.policy.as_ref().map(Spanned::span),
            self.plan.as_ref().map(Spanned::span),
            self.send_queue.as_ref().map(Spanned::span),
            self.nvlink.as_ref().map(Spanned::span),
        ];
        if let Some(at) = spans.into_iter().flatten().next() {
            check_rails(topology).map_err(|what| Refusal { at, what })?;
        }
        if let Some(plan) = &self.plan {
            if plan.get_ref().0.0 == 0 {
                let what =
                    "plan = 0 B is not possible; give the bytes of a chunk, as in \"32 KiB\"";
                return Err(Refusal::of(plan, what));
            }
            if self.data_path.is_some() || self.policy.is_some() {
                let what =
                    "plan decides the rails before the start; remove data_path and policy, or plan";
                return Err(Refusal::of(plan, what));
            }
        }
        if let Some(key) = &self.send_queue
            && key.get_ref().0.0 == 0
        {
            return Err(Refusal::of(key, "send_queue = 0 B is not possible; give at least 1 B"));
        }
        Ok(())
    }
}
