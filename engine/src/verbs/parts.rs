//! Packets that come in parts, each a single packet of the NIC.
//!
//! A UC queue pair drops a message of which one packet is lost, and Soft-RoCE the next one with it. Where packets
//! get lost, or overtake each other on one lane, parts of one packet each lose no more than what was lost.

use braid_wire::Frame;

/// Packets of one lane that may be incomplete at a time; older ones give way.
const OPEN: usize = 8;
/// Most parts of a packet: what `seen` has room for.
pub(crate) const MAX_PARTS: usize = 64;

/// The incomplete packets of a lane.
#[derive(Default)]
pub(crate) struct Parts {
    open: [Packet; OPEN],
}

#[derive(Default)]
struct Packet {
    serial: u32,
    /// A bit for each part that has come; 0: free.
    seen: u64,
    count: u8,
    bytes: Vec<u8>,
}

impl Parts {
    /// A part has come, the lane's NIC packets being `part_len` long without their frames. Returns the packet if that
    /// completes it.
    pub(crate) fn take(&mut self, frame: &Frame, part: &[u8], part_len: usize) -> Option<&[u8]> {
        let (index, count) = (usize::from(frame.index), usize::from(frame.count));
        let is_last = index + 1 == count;
        if count > MAX_PARTS || part.len() > part_len || (!is_last && part.len() < part_len) {
            return None;
        }
        let packet = &mut self.open[frame.serial as usize % OPEN];
        if packet.seen == 0 || packet.serial != frame.serial || packet.count != frame.count {
            (packet.serial, packet.seen, packet.count) = (frame.serial, 0, frame.count);
            packet.bytes.clear();
            packet.bytes.resize(count * part_len, 0);
        }
        let at = index * part_len;
        packet.bytes[at..at + part.len()].copy_from_slice(part);
        if is_last {
            packet.bytes.truncate(at + part.len());
        }
        packet.seen |= 1 << index;
        let is_whole = packet.seen.count_ones() as usize == count;
        is_whole.then(|| {
            packet.seen = 0;
            &packet.bytes[..]
        })
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::PathId;

    use super::*;

    const LEN: usize = 4;

    fn take(parts: &mut Parts, serial: u32, index: u8, bytes: &[u8]) -> Option<Vec<u8>> {
        let frame = Frame::packet(PathId::new(0), None).part(serial, index, 3);
        parts.take(&frame, bytes, LEN).map(<[u8]>::to_vec)
    }

    #[test]
    fn parts_make_a_packet_in_whatever_order() {
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let mut parts = Parts::default();
            let mut whole = None;
            for (step, index) in order.into_iter().enumerate() {
                let bytes: &[u8] = [&b"abcd"[..], b"efgh", b"ij"][usize::from(index)];
                whole = take(&mut parts, 7, index, bytes);
                assert_eq!(whole.is_some(), step == 2, "{order:?}");
            }
            assert_eq!(whole.as_deref(), Some(&b"abcdefghij"[..]), "{order:?}");
        }
    }

    #[test]
    fn what_is_missing_holds_up_nobody() {
        let mut parts = Parts::default();
        assert_eq!(take(&mut parts, 1, 0, b"abcd"), None);
        for (index, bytes) in [(0, b"ABCD"), (1, b"EFGH")] {
            assert_eq!(take(&mut parts, 2, index, bytes), None);
        }
        assert_eq!(take(&mut parts, 2, 2, b"I").as_deref(), Some(&b"ABCDEFGHI"[..]));
        assert_eq!(take(&mut parts, 2, 2, b"I"), None, "it was handed out");
        // Its place is taken by a later one, of which nothing is mixed with it.
        assert_eq!(take(&mut parts, 1 + OPEN as u32, 1, b"mnop"), None);
        assert_eq!(take(&mut parts, 1 + OPEN as u32, 2, b"q"), None);
        assert_eq!(take(&mut parts, 1, 1, b"efgh"), None);
    }

    #[test]
    fn parts_of_a_wrong_length_are_refused() {
        let mut parts = Parts::default();
        assert_eq!(take(&mut parts, 1, 0, b"abc"), None);
        assert_eq!(take(&mut parts, 1, 2, b"abcde"), None);
        let huge = Frame::packet(PathId::new(0), None).part(1, 200, 255);
        assert_eq!(parts.take(&huge, b"a", LEN), None);
        assert_eq!(parts.open[1].seen, 0);
    }
}
