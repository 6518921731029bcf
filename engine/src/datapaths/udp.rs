//! UDP sockets.

use std::net::SocketAddr;

use super::factory::{Factory, Feature, Info, Medium, Opening, Program};
use crate::datapath::Datapath;
use crate::error::EngineError;
use crate::link::Link;
use crate::link::dual_stack::DualStackLink;

pub(crate) struct Udp;

impl Factory for Udp {
    type Options = ();

    const INFO: Info = Info {
        name: "udp",
        label: "UDP sockets",
        summary: "UDP sockets",
        medium: Medium::Network,
        protocols: &["UDP"],
        features: &[Feature::Discovery, Feature::SecondAddress, Feature::Keys, Feature::Roce],
        programs: &[Program::Nccl, Program::DropIn],
    };

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let link = opening.at_one_port(|| bind(opening))?;
        Ok(Box::new(opening.datagrams(link, opening.paths)?))
    }
}

/// Binds a UDP port, the same at both addresses if there are two.
pub(super) fn bind(opening: &Opening<'_>) -> Result<Box<dyn Link>, EngineError> {
    let first = opening.bind_roce(opening.addr)?;
    Ok(match opening.second_addr {
        None => first,
        Some(ip) => {
            let second = opening.bind_roce(SocketAddr::new(ip, first.local_addr().port()))?;
            Box::new(DualStackLink::new(first, second))
        }
    })
}
