//! UDP sockets, and TCP connections where UDP does not pass.

use std::net::SocketAddr;
use std::sync::Arc;

use super::factory::{EnginePlan, Factory, Feature, Info, Medium, Opening, Program};
use super::{tcp, udp};
use crate::auto::AutoDatapath;
use crate::datapath::Datapath;
use crate::error::EngineError;
use crate::link::Link;
use crate::tcp::TcpDatapath;
use crate::verbs::Device;

pub(crate) struct Auto;

impl Factory for Auto {
    type Options = ();

    const INFO: Info = Info {
        name: "auto",
        label: "UDP sockets, or TCP connections",
        summary: "UDP sockets, and TCP connections to peers that UDP does not reach",
        medium: Medium::Network,
        protocols: &["UDP", "TCP"],
        features: &[Feature::SecondAddress, Feature::Keys, Feature::Roce],
        programs: &[Program::Nccl, Program::DropIn],
    };

    fn prepare(_: &(), plan: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        if plan.faults.is_none() { Ok(Vec::new()) } else { Err(EngineError::FaultsOverTcp) }
    }

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let (link, tcp) = opening.at_one_port(|| bind(opening))?;
        let udp = opening.datagrams(link, opening.paths)?;
        Ok(Box::new(AutoDatapath::new(udp, tcp)))
    }
}

/// Binds a UDP and a TCP port of the same number.
fn bind(opening: &Opening<'_>) -> Result<(Box<dyn Link>, TcpDatapath), EngineError> {
    let link = udp::bind(opening)?;
    let addr = SocketAddr::new(opening.addr.ip(), link.local_addr().port());
    Ok((link, tcp::bind(opening, addr)?))
}
