//! Payload capacity of a link.

use braid_lab::Rate;

/// Ethernet, IPv4, UDP and Braid's own header, in bytes.
const HEADER_BYTES: u32 = 14 + 20 + 8 + 60;
/// The part of the headers that the MTU covers.
const HEADER_IN_MTU: u32 = HEADER_BYTES - 14;

/// Returns the payload capacity of a link in Gbit/s: its rate less the headers of full packets.
pub(crate) fn payload_gbps(rate: Rate, mtu: u32) -> f64 {
    let payload = f64::from(mtu - HEADER_IN_MTU);
    rate.bits() as f64 * 1e-9 * payload / (payload + f64::from(HEADER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_take_their_share() {
        let gbps = payload_gbps(Rate::from_bits(1_514_000_000), 1500);
        assert!((gbps - 1.412).abs() < 1e-12, "{gbps}");
    }
}
