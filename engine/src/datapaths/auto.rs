//! UDP sockets, and TCP connections where UDP does not pass.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::factory::{EnginePlan, Factory, Feature, Info, Medium, Opening, Program};
use crate::auto::AutoDatapath;
use crate::datapath::Datapath;
use crate::error::EngineError;
use crate::link::Link;
use crate::link::udp::UdpLink;
use crate::tcp::TcpDatapath;
use crate::verbs::Device;

/// The number of UDP ports that are tried until one is free for TCP as well.
const TRIES: usize = 16;

pub(crate) struct Auto;

impl Factory for Auto {
    type Options = ();

    const INFO: Info = Info {
        name: "auto",
        label: "UDP sockets, or TCP connections",
        summary: "UDP sockets, and TCP connections to peers that UDP does not reach",
        medium: Medium::Network,
        protocols: &["UDP", "TCP"],
        features: &[Feature::Keys],
        programs: &[Program::Nccl, Program::DropIn],
    };

    fn prepare(_: &(), plan: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        if plan.faults.is_none() { Ok(Vec::new()) } else { Err(EngineError::FaultsOverTcp) }
    }

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let (link, tcp) = bind(opening)?;
        let udp = opening.datagrams(Box::new(link), opening.paths)?;
        Ok(Box::new(AutoDatapath::new(udp, tcp)))
    }
}

/// Binds a UDP and a TCP port of the same number.
fn bind(opening: &Opening<'_>) -> Result<(UdpLink, TcpDatapath), EngineError> {
    // Ports that are free for UDP only stay bound, so that the next one is another.
    let mut taken = Vec::new();
    loop {
        let link = opening.bind(opening.addr)?;
        let mut addr: SocketAddr = opening.addr;
        addr.set_port(link.local_addr().port());
        let source = match TcpDatapath::bind(addr, opening.paths, opening.counters.clone()) {
            Ok(tcp) => return Ok((link, tcp)),
            Err(source) => source,
        };
        taken.push(link);
        let is_any = opening.addr.port() == 0 && source.kind() == io::ErrorKind::AddrInUse;
        if !is_any || taken.len() == TRIES {
            return Err(EngineError::Bind { addr, source });
        }
    }
}
