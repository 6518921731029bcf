//! One rail per stream, independent of load, as on a host with bonded interfaces. A stream waits
//! for its rail and takes another one only while the rail is down.
//!
//! Stream ids are per destination. The destination's start rail replaces the addresses in the hash
//! of a bonded interface. Without it, the first queue pairs to all destinations would share a rail.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use braid_wire::RailId;

use super::choice::RailChoice;
use super::policy::RailPolicy;
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
