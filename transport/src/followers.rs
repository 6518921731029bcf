//! The segments that a description of a packet covers besides its first.

use braid_wire::{DataHeader, Psn};

/// The segments behind the first one of a [`crate::TransmitBody::Segment`]. They continue its
/// message with consecutive PSNs, on its path and in its batch. Each carries as many bytes as the
/// first one, except that the last may carry fewer. The default value: none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Followers {
    /// Number of segments.
    pub count: u32,
    /// Payload bytes of all of them.
    pub bytes: u32,
    /// Whether the last one requests an acknowledgement.
    pub asks: bool,
}

impl Followers {
    /// Takes the next follower and turns the header of the segment before it into its own. Returns
    /// whether there was one.
    #[inline]
    pub fn next(&mut self, header: &mut DataHeader) -> bool {
        if self.count == 0 {
            return false;
        }
        self.count -= 1;
        header.psn = Psn(header.psn.into()).plus(1).wire();
        header.offset += u32::from(header.len);
        header.len = self.bytes.min(header.len.into()) as u16;
        self.bytes -= u32::from(header.len);
        header.last = header.offset + u32::from(header.len) == header.message_len;
        header.ack_request = self.asks && self.count == 0;
        true
    }

    /// Returns the header of the first segment, `first`, and those of the followers.
    pub fn headers(mut self, first: &DataHeader) -> impl Iterator<Item = DataHeader> + use<> {
        let follow = move |header: &DataHeader| {
            let mut header = *header;
            self.next(&mut header).then_some(header)
        };
        std::iter::successors(Some(*first), follow)
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::{Opcode, QpId, Token};

    use super::*;

    fn first(offset: u32, message_len: u32) -> DataHeader {
        DataHeader {
            opcode: Opcode::Write,
            qp: QpId::default(),
            token: Token::default(),
            psn: 0xFF_FFFF,
            ack_request: false,
            solicited: false,
            last: false,
            retransmission: false,
            number: 7,
            address: 0x1000,
            rkey: 3,
            message_len,
            offset,
            len: 100,
            imm: 0,
            stamp: 9,
            payload_crc: 0,
            operands: None,
        }
    }

    fn fields(followers: Followers, first: &DataHeader) -> Vec<(u32, u32, u16, bool, bool)> {
        let fields = |h: DataHeader| (h.psn, h.offset, h.len, h.last, h.ack_request);
        followers.headers(first).map(fields).collect()
    }

    #[test]
    fn followers_continue_the_message_across_the_wrap_of_the_psn() {
        let followers = Followers { count: 2, bytes: 150, asks: true };
        let expected = [
            (0xFF_FFFF, 200, 100, false, false),
            (0, 300, 100, false, false),
            (1, 400, 50, true, true),
        ];
        assert_eq!(fields(followers, &first(200, 450)), expected);
    }

    #[test]
    fn followers_may_end_before_their_message_does() {
        let followers = Followers { count: 1, bytes: 100, asks: false };
        let expected = [(0xFF_FFFF, 0, 100, false, false), (0, 100, 100, false, false)];
        assert_eq!(fields(followers, &first(0, 450)), expected);
    }

    #[test]
    fn a_segment_without_followers_keeps_its_own_header() {
        let alone = DataHeader { last: true, ack_request: true, ..first(350, 450) };
        assert_eq!(Followers::default().headers(&alone).collect::<Vec<_>>(), [alone]);
    }
}
