//! An RDMA device.

#[cfg(feature = "verbs")]
use std::net::IpAddr;
use std::sync::Arc;

#[cfg(feature = "verbs")]
use braid_wire::{RailId, max_nic_qps};

use super::factory::{EnginePlan, Factory, Info, Medium, Opening, Program};
use crate::datapath::Datapath;
use crate::error::EngineError;
#[cfg(feature = "verbs")]
use crate::verbs::VerbsDatapath;
use crate::verbs::{Device, VerbsOptions, VerbsSetupError};

pub(crate) struct Verbs;

const INFO: Info = Info {
    name: "verbs",
    label: "RDMA device",
    summary: "An RDMA device, Soft-RoCE included, by libibverbs; `-d` names it",
    medium: Medium::Device,
    protocols: &["UDP"],
    features: &[],
    programs: &[Program::Nccl],
};

#[cfg(feature = "verbs")]
impl Factory for Verbs {
    type Options = VerbsOptions;

    const INFO: Info = INFO;

    fn prepare(options: &VerbsOptions, plan: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        if !plan.faults.is_none() {
            return Err(VerbsSetupError::Faults.into());
        }
        let (paths, rails) = (plan.paths, plan.rails.len());
        let max = max_nic_qps(rails) - 1;
        if paths > max {
            return Err(VerbsSetupError::Paths { paths, rails, max }.into());
        }
        let device = |(rail, ip): (usize, &IpAddr)| match rail {
            0 => Device::open(options, Some(*ip).filter(|ip| !ip.is_unspecified())),
            _ => Device::find(options.service, *ip),
        };
        let devices = plan.rails.iter().enumerate().map(device);
        Ok(devices.map(|device| device.map(Arc::new)).collect::<Result<_, _>>()?)
    }

    fn open(_: &VerbsOptions, opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let device = opening.device.expect("`prepare` opens a device for each rail");
        // The device's queue pairs carry the paths. The socket sends from its own port only.
        let sockets = opening.datagrams(Box::new(opening.bind(opening.addr)?), 0)?;
        let rail = RailId::new(opening.rail);
        let (paths, mtu) = (opening.paths, opening.mtu);
        let counters = opening.counters.clone();
        Ok(Box::new(VerbsDatapath::open(sockets, device, rail, paths, mtu, counters)?))
    }
}

#[cfg(not(feature = "verbs"))]
impl Factory for Verbs {
    type Options = VerbsOptions;

    const INFO: Info = INFO;

    fn prepare(_: &VerbsOptions, _: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        Err(VerbsSetupError::NotBuilt.into())
    }

    fn open(_: &VerbsOptions, _: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        Err(VerbsSetupError::NotBuilt.into())
    }
}
