//! TCP connections.

use std::net::SocketAddr;
use std::sync::Arc;

use super::factory::{EnginePlan, Factory, Feature, Info, Medium, Opening, Program};
use crate::datapath::Datapath;
use crate::error::EngineError;
use crate::tcp::TcpDatapath;
use crate::verbs::Device;

pub(crate) struct Tcp;

impl Factory for Tcp {
    type Options = ();

    const INFO: Info = Info {
        name: "tcp",
        label: "TCP connections",
        summary: "TCP connections, one for each path",
        medium: Medium::Network,
        protocols: &["TCP"],
        features: &[Feature::SecondAddress, Feature::Keys],
        programs: &[Program::Nccl, Program::DropIn],
    };

    fn prepare(_: &(), plan: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        if plan.faults.is_none() { Ok(Vec::new()) } else { Err(EngineError::FaultsOverTcp) }
    }

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        Ok(Box::new(opening.at_one_port(|| bind(opening, opening.addr))?))
    }
}

/// Binds a TCP port, the same at both addresses if there are two.
pub(super) fn bind(opening: &Opening<'_>, addr: SocketAddr) -> Result<TcpDatapath, EngineError> {
    let (second, counters) = (opening.second_addr, opening.counters.clone());
    let bound = TcpDatapath::bind(addr, second, opening.paths, counters);
    bound.map_err(|source| EngineError::Bind { addr, source })
}
