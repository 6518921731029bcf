//! A network inside one process.

use super::factory::{Factory, Feature, Info, Medium, Opening};
use crate::datapath::Datapath;
use crate::error::EngineError;
use crate::link::mem::{MemFabric, MemLink};

pub(crate) struct Mem;

impl Factory for Mem {
    type Options = MemFabric;

    const INFO: Info = Info {
        name: "mem",
        label: "memory",
        summary: "Inside one process",
        medium: Medium::Process,
        protocols: &["in-process"],
        features: &[Feature::Keys],
        programs: &[],
    };

    fn open(fabric: &MemFabric, opening: &Opening<'_>) -> Result<Box<dyn Datapath>, EngineError> {
        let addr = opening.addr;
        let failed = |source| EngineError::Bind { addr, source };
        let link = MemLink::bind(fabric, addr).map_err(failed)?;
        Ok(Box::new(opening.datagrams(Box::new(link), opening.paths)?))
    }
}
