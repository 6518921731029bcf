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
        features: &[Feature::Discovery, Feature::SecondAddress, Feature::Keys],
        programs: &[Program::Nccl, Program::DropIn],
    };

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let first = opening.bind(opening.addr)?;
        let link: Box<dyn Link> = match opening.second_addr {
            None => Box::new(first),
            Some(ip) => {
                let port = if opening.worker == 0 { first.local_addr().port() } else { 0 };
                let second = opening.bind(SocketAddr::new(ip, port))?;
                Box::new(DualStackLink::new(Box::new(first), Box::new(second)))
            }
        };
        Ok(Box::new(opening.datagrams(link, opening.paths)?))
    }
}
