//! One rail per stream, whatever the others carry: what a host with bonded interfaces does. A stream waits for its rail, and
//! takes another only while that is out of use.
//!
//! Streams are numbered for each destination: the destination's own start among the rails stands for the addresses that an
//! interface's hash has in it. Without that, the first queue pairs to all destinations would take the same rail.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use braid_wire::RailId;

use super::{RailChoice, RailPolicy};
use crate::StreamId;

#[derive(Debug)]
struct Hash;

pub(super) fn build() -> Box<dyn RailPolicy> {
    Box::new(Hash)
}

impl RailPolicy for Hash {
    fn pick(&mut self, stream: StreamId, rails: &RailChoice<'_>) -> RailId {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(stream);
        let nth = hash.wrapping_add(rails.start as u64) % rails.live.len().max(1) as u64;
        rails.live.iter().nth(nth as usize).unwrap_or_default()
    }
}
