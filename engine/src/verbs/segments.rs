//! The lengths of segments over a NIC.

use std::time::Duration;

use braid_transport::DirectConfig;
use braid_wire::{Frame, MAX_DATA_HEADER_LEN};

/// Bytes of segments that the NIC places while packets are being lost.
const SHORT: u16 = 4096;
/// The least number of NIC packets in other segments. Work requests and completions cost more than
/// packets, but the loss of one packet loses the whole segment.
const LEAST_STAGED: u16 = 2;
/// Bytes of segments that the NIC places while nothing is lost, unless its packets are tiny.
const LONG: u16 = 16_384;
/// The largest number of NIC packets in a segment. A retransmission is sent in parts, of which
/// there can be 64.
const MOST_PACKETS: u16 = 32;

/// Time with short segments after a loss, because a loss costs a NIC queue pair and everything in
/// flight to it.
const HOLD_DOWN: Duration = Duration::from_millis(3_200);

/// The lengths of segments over a NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    /// Payload bytes of a full staged segment.
    pub(crate) staged: u16,
    /// Payload bytes of segments that the NIC places.
    pub(crate) direct: DirectConfig,
}

impl Segments {
    /// The lengths for a NIC with packets of `nic` bytes. `told`: the application's limit for every
    /// segment.
    pub(crate) fn new(nic: u16, told: Option<u16>) -> Self {
        let packets = (SHORT / nic).max(1);
        // Fills the NIC's packets, all headers included.
        let filling = |packets: u16| {
            let bytes = usize::from(packets) * Frame::part_len(nic.into()) - MAX_DATA_HEADER_LEN;
            bytes as u16 / 8 * 8
        };
        let long = (LONG / nic).clamp(1, MOST_PACKETS) * nic;
        Segments {
            staged: told.unwrap_or(filling(packets.max(LEAST_STAGED))),
            direct: DirectConfig {
                long: told.unwrap_or(long),
                short: told.map_or(filling(packets), |told| told.min(packets * nic)),
                hold_down: HOLD_DOWN,
            },
        }
    }

    /// Payload bytes of the longest segment.
    pub(crate) fn longest(&self) -> u16 {
        self.staged.max(self.direct.long)
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::FRAME_LEN;

    use super::*;
    use crate::parts::MAX_PARTS;

    #[test]
    fn segments_are_whole_packets_and_can_be_sent_again_in_parts() {
        for (nic, staged, short, long) in
            [(256, 16, 16, 32), (1024, 4, 4, 16), (2048, 2, 2, 8), (4096, 2, 1, 4)]
        {
            let segments = Segments::new(nic, None);
            let fill = |len, packets: u16| {
                let all = len + (MAX_DATA_HEADER_LEN + FRAME_LEN * usize::from(packets)) as u16;
                let end = packets * nic;
                assert!((end - 7..=end).contains(&all), "{len} bytes in {packets} of {nic}");
            };
            fill(segments.staged, staged);
            fill(segments.direct.short, short);
            assert_eq!(segments.direct.long, long * nic);
            let packet = MAX_DATA_HEADER_LEN + usize::from(segments.longest());
            assert!(packet.div_ceil(Frame::part_len(nic.into())) <= MAX_PARTS, "{nic}");
        }
    }

    #[test]
    fn the_applications_limit_holds_except_for_short_segments() {
        let told = |len| Segments::new(4096, Some(len));
        let long = told(9000);
        assert_eq!((long.staged, long.direct.long), (9000, 9000));
        assert_eq!(long.direct.short, 4096, "one packet, without its header");
        let short = told(100);
        assert_eq!((short.staged, short.direct.long, short.direct.short), (100, 100, 100));
    }
}
