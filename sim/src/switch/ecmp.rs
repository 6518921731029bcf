//! Equal-cost multipath by hash: packets with the same addresses and source port take the same
//! route.

use super::offer::Offer;
use super::port_policy::{PortPolicy, PortRng};
use crate::topology::PortId;

/// A switch's hash function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecmp {
    salt: u64,
}

impl Ecmp {
    pub(crate) fn new(salt: u64) -> Self {
        Ecmp { salt }
    }

    /// Returns the port of the packet's flow.
    pub(crate) fn hashed(self, offer: &Offer<'_>) -> PortId {
        let packet = offer.packet;
        let addresses = u64::from(packet.src) << 32 | u64::from(packet.dst);
        let hash = mix(mix(addresses ^ self.salt) ^ u64::from(packet.path.get()));
        // The high half of the product maps a hash to a range without a division.
        offer.ports[((u128::from(hash) * offer.ports.len() as u128) >> 64) as usize]
    }
}

impl PortPolicy for Ecmp {
    fn choose(&mut self, offer: &Offer<'_>, _: &mut PortRng) -> PortId {
        self.hashed(offer)
    }
}

/// Mixes the bits of a value, so that inputs which differ in few bits differ in all (the finaliser
/// of SplitMix64).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
