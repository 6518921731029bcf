//! UDP sockets, and AF_XDP for short datagrams.

use std::sync::Arc;

use super::factory::{EnginePlan, Factory, Feature, Info, Medium, Opening};
use crate::datapath::Datapath;
use crate::error::EngineError;
#[cfg(feature = "xdp")]
use crate::link::xdp::XdpLink;
use crate::link::xdp::XdpSetupError;
use crate::verbs::Device;

pub(crate) struct Xdp;

const INFO: Info = Info {
    name: "xdp",
    label: "UDP sockets, AF_XDP",
    summary: "UDP sockets, and AF_XDP for short datagrams, on the Ethernet interface of \
              `--bind`; as root",
    medium: Medium::Network,
    protocols: &["UDP"],
    features: &[Feature::Discovery, Feature::Keys],
    programs: &[],
};

#[cfg(feature = "xdp")]
impl Factory for Xdp {
    type Options = ();

    const INFO: Info = INFO;

    fn prepare(_: &(), plan: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        match plan.workers {
            1 => Ok(Vec::new()),
            threads => Err(XdpSetupError::Workers { threads }.into()),
        }
    }

    fn open(_: &(), opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let link = XdpLink::join(opening.bind(opening.addr)?)?;
        Ok(Box::new(opening.datagrams(Box::new(link), opening.paths)?))
    }
}

#[cfg(not(feature = "xdp"))]
impl Factory for Xdp {
    type Options = ();

    const INFO: Info = INFO;

    fn prepare(_: &(), _: &EnginePlan) -> Result<Vec<Arc<Device>>, EngineError> {
        Err(XdpSetupError::NotBuilt.into())
    }

    fn open(_: &(), _: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        Err(XdpSetupError::NotBuilt.into())
    }
}
