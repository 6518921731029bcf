//! TCP connections.

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
        features: &[Feature::Keys],
        programs: &[Program::Nccl, Program::DropIn],
    };

    fn prepare(_: &(), plan: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        if plan.faults.is_none() { Ok(Vec::new()) } else { Err(EngineError::FaultsOverTcp) }
    }

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let (addr, paths) = (opening.addr, opening.paths);
        let bound = TcpDatapath::bind(addr, paths, opening.counters.clone());
        Ok(Box::new(bound.map_err(|source| EngineError::Bind { addr, source })?))
    }
}
