//! The interface between a row of the table and the engine that opens it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use braid_wire::DEFAULT_PORT;

use crate::counters::WorkerCounters;
use crate::datapath::Datapath;
use crate::datapath::datagram::DatagramDatapath;
use crate::error::EngineError;
use crate::link::Link;
use crate::link::faults::{Faults, FaultyLink};
use crate::link::udp::UdpLink;
use crate::roce_port::RocePorts;
use crate::signals::Signals;
use crate::verbs::Device;

/// The number of ports that are tried until one is free at all addresses and for all protocols of a
/// datapath.
const TRIES: usize = 16;

/// A row's description of its datapath.
#[derive(Debug)]
pub(crate) struct Info {
    /// The name that users type.
    pub(crate) name: &'static str,
    /// The name in the header of a measurement.
    pub(crate) label: &'static str,
    /// One line for the help of a program.
    pub(crate) summary: &'static str,
    pub(crate) medium: Medium,
    /// The protocol of the packets, by carrier.
    pub(crate) protocols: &'static [&'static str],
    pub(crate) features: &'static [Feature],
    /// The programs that offer the datapath. Rust, C and `braid-perf` offer all of them.
    pub(crate) programs: &'static [Program],
}

/// The medium that carries the packets of a datapath.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Medium {
    /// The network of this host. The datapath needs no options.
    Network,
    /// An RDMA device, which [`crate::DatapathOptions::device`] names.
    Device,
    /// The memory of this process, in the network of [`crate::DatapathOptions::fabric`].
    Process,
}

/// An option of an engine that not every datapath has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feature {
    /// [`crate::EngineConfig::discover`].
    Discovery,
    /// [`crate::EngineConfig::second_addr`].
    SecondAddress,
    /// [`crate::EngineConfig::security`].
    Keys,
    /// [`crate::QueuePair::connect_roce`].
    Roce,
}

/// A program that offers only some of the datapaths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Program {
    /// The NCCL plugin.
    Nccl,
    /// The drop-in libibverbs.
    DropIn,
}

/// A datapath of the table. The engine calls [`Factory::prepare`] once and [`Factory::open`] for
/// each rail of each worker.
pub(crate) trait Factory {
    /// The payload of the [`crate::Datapath`] variant; `()` if the variant has none.
    type Options;

    const INFO: Info;

    /// Checks the engine's configuration. Opens the devices that all workers share, one for each
    /// rail.
    fn prepare(_: &Self::Options, _: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        Ok(Vec::new())
    }

    fn open(
        options: &Self::Options,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn Datapath>, EngineError>;
}

/// The configuration of the whole engine, as far as [`Factory::prepare`] needs it.
pub(crate) struct EnginePlan {
    /// The address of each rail.
    pub(crate) rails: Vec<IpAddr>,
    pub(crate) paths: usize,
    pub(crate) workers: usize,
    pub(crate) faults: Faults,
}

/// The configuration of one rail of one worker.
pub(crate) struct Opening<'a> {
    /// The receiving address. Port 0: any free port.
    pub(crate) addr: SocketAddr,
    pub(crate) second_addr: Option<IpAddr>,
    pub(crate) worker: usize,
    pub(crate) rail: usize,
    pub(crate) paths: usize,
    pub(crate) mtu: Option<u16>,
    pub(crate) receive_buffer: usize,
    pub(crate) discover: bool,
    pub(crate) faults: Faults,
    /// The device of this rail that [`Factory::prepare`] has opened.
    pub(crate) device: Option<&'a Arc<Device>>,
    pub(crate) counters: &'a Arc<WorkerCounters>,
    pub(crate) signals: &'a Arc<Signals>,
    pub(crate) roce: RocePlace<'a>,
}

/// The relation of a rail to the port of RoCEv2, UDP port 4791.
pub(crate) enum RocePlace<'a> {
    /// The rail may be at that port. Other processes can then share it for RoCEv2.
    Rail(&'a RocePorts),
    /// This is the port of RoCEv2. Another process may have it.
    Port(&'a RocePorts),
}

impl Opening<'_> {
    /// Binds the receiving socket.
    pub(crate) fn bind(&self, addr: SocketAddr) -> Result<UdpLink, EngineError> {
        let bound = UdpLink::bind(addr, self.receive_buffer);
        bound.map_err(|source| EngineError::Bind { addr, source })
    }

    /// Binds the receiving socket of a rail that can speak RoCEv2.
    pub(crate) fn bind_roce(&self, addr: SocketAddr) -> Result<Box<dyn Link>, EngineError> {
        let shared = match self.roce {
            RocePlace::Port(ports) => ports.open(addr, self.receive_buffer),
            RocePlace::Rail(ports) if addr.port() == DEFAULT_PORT => {
                ports.adopt(self.bind(addr)?, addr)
            }
            RocePlace::Rail(_) => return Ok(Box::new(self.bind(addr)?)),
        };
        Ok(Box::new(shared.map_err(|source| EngineError::Bind { addr, source })?))
    }

    /// Calls `bind`, which binds all that the datapath receives at, to the configured port. If that
    /// is any free port, the system chooses another one each time until `bind` succeeds.
    pub(crate) fn at_one_port<T>(
        &self,
        bind: impl Fn() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        for _ in 1..TRIES {
            match bind() {
                Err(EngineError::Bind { source, .. })
                    if self.addr.port() == 0 && source.kind() == io::ErrorKind::AddrInUse => {}
                bound => return bound,
            }
        }
        bind()
    }

    /// Makes a datapath of a link, with `paths` source ports and the faults of the configuration.
    pub(crate) fn datagrams(
        &self,
        link: Box<dyn Link>,
        paths: usize,
    ) -> Result<DatagramDatapath, EngineError> {
        let mut link = self.with_faults(link)?;
        link.open_paths(paths).map_err(|source| EngineError::Paths { count: paths, source })?;
        let datagrams = DatagramDatapath::new(link, self.counters.clone());
        Ok(match self.discover {
            true => datagrams.with_discovery(paths, self.signals.clone()),
            false => datagrams,
        })
    }

    fn with_faults(&self, link: Box<dyn Link>) -> Result<Box<dyn Link>, EngineError> {
        if self.faults.is_none() {
            return Ok(link);
        }
        let place = (self.rail << 16) + self.worker;
        let seed = self.faults.seed.wrapping_add(place as u64);
        Ok(Box::new(FaultyLink::new(link, Faults { seed, ..self.faults })?))
    }
}
