//! Opening the datapath that a configuration names: the one place that knows which there are.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_wire::{RailId, max_nic_qps};

use super::datagram::DatagramDatapath;
use crate::config::{Datapath, EngineConfig};
use crate::counters::WorkerCounters;
use crate::error::EngineError;
use crate::link::Link;
use crate::link::dual_stack::DualStackLink;
use crate::link::faults::{Faults, FaultyLink};
use crate::link::mem::MemLink;
use crate::link::udp::UdpLink;
use crate::link::xdp::XdpLink;
use crate::signals::Signals;
use crate::verbs::{Device, VerbsDatapath, VerbsSetupError};

/// What a worker's datapath is made of.
pub(crate) struct Opening<'a> {
    pub(crate) config: &'a EngineConfig,
    /// Which worker it is for.
    pub(crate) index: usize,
    /// Which of its rails.
    pub(crate) rail: usize,
    /// What [`open_devices`] has returned.
    pub(crate) devices: &'a [Arc<Device>],
    pub(crate) counters: &'a Arc<WorkerCounters>,
    pub(crate) signals: &'a Arc<Signals>,
}

/// Opens it.
pub(crate) fn open(opening: Opening<'_>) -> Result<Box<dyn super::Datapath>, EngineError> {
    let Opening { config, index, rail, devices, counters, signals } = opening;
    let device = devices.get(rail);
    // A device has queue pairs for the paths; the sockets carry only what has no path.
    let sockets = if device.is_some() { 0 } else { config.paths };
    let link = open_link(config, index, rail, sockets)?;
    let datagrams = DatagramDatapath::new(link, counters.clone());
    Ok(match device {
        Some(device) => {
            let rail = RailId::new(rail);
            Box::new(VerbsDatapath::open(datagrams, device, rail, config, counters.clone())?)
        }
        None if config.discover => {
            Box::new(datagrams.with_discovery(config.paths, signals.clone()))
        }
        None => Box::new(datagrams),
    })
}

/// Opens the RDMA devices that the workers of an engine share, by rail; none if its datapath has none.
pub(crate) fn open_devices(config: &EngineConfig) -> Result<Vec<Arc<Device>>, EngineError> {
    let Datapath::Verbs(options) = &config.datapath else { return Ok(Vec::new()) };
    if !config.faults.is_none() {
        return Err(VerbsSetupError::Faults.into());
    }
    let rails = 1 + config.rails.len();
    let max = max_nic_qps(rails) - 1;
    if config.paths > max {
        return Err(VerbsSetupError::Paths { paths: config.paths, rails, max }.into());
    }
    let ip = Some(config.bind.ip()).filter(|ip| !ip.is_unspecified());
    let first = Device::open(options, ip);
    let further = config.rails.iter().map(|ip| Device::find(options.service, *ip));
    let all = std::iter::once(first).chain(further);
    Ok(all.map(|device| device.map(Arc::new)).collect::<Result<_, _>>()?)
}

/// Each worker has a receiving port of its own on each rail; only the first one's on the first is known in advance.
fn open_link(
    config: &EngineConfig,
    index: usize,
    rail: usize,
    paths: usize,
) -> Result<Box<dyn Link>, EngineError> {
    let mut addr = config.bind;
    if rail > 0 {
        addr.set_ip(config.rails[rail - 1]);
    }
    if index > 0 || rail > 0 {
        addr.set_port(0);
    }
    let link: Box<dyn Link> = match &config.datapath {
        Datapath::Udp | Datapath::Verbs(_) => {
            let first = sockets_at(addr, config)?;
            match config.second_addr {
                None => Box::new(first),
                Some(ip) => {
                    let port = if index == 0 { first.local_addr().port() } else { 0 };
                    let second = sockets_at(SocketAddr::new(ip, port), config)?;
                    Box::new(DualStackLink::new(Box::new(first), Box::new(second)))
                }
            }
        }
        Datapath::Xdp => Box::new(XdpLink::join(sockets_at(addr, config)?)?),
        Datapath::Mem(fabric) => {
            let failed = |source| EngineError::Bind { addr, source };
            Box::new(MemLink::bind(fabric, addr).map_err(failed)?)
        }
    };
    let mut link = with_faults(link, config.faults, (rail << 16) + index)?;
    link.open_paths(paths).map_err(|source| EngineError::Paths { count: paths, source })?;
    Ok(link)
}

fn sockets_at(addr: SocketAddr, config: &EngineConfig) -> Result<UdpLink, EngineError> {
    let bound = UdpLink::bind(addr, config.receive_buffer);
    bound.map_err(|source| EngineError::Bind { addr, source })
}

fn with_faults(
    link: Box<dyn Link>,
    faults: Faults,
    place: usize,
) -> Result<Box<dyn Link>, EngineError> {
    if faults.is_none() {
        return Ok(link);
    }
    let seed = faults.seed.wrapping_add(place as u64);
    Ok(Box::new(FaultyLink::new(link, Faults { seed, ..faults })?))
}
