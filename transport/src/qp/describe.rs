//! Descriptions of outgoing packets. A description is a large value, so it is built last, in its
//! final place.

use braid_lb::Rails;
use braid_wire::{DataHeader, Opcode, Psn, Stream, Time};

use super::connected::ConnectedQp;
use super::streams::Streams;
use super::transmit::Packet;
use crate::stream::send::source::Source;
use crate::stream::send::transmit::Departure;
use crate::{Access, Egress, QpSlot, Transmit, TransmitBody};

impl ConnectedQp {
    /// Describes a packet that [`ConnectedQp::poll_transmit`] has just returned. `slot`: the slot
    /// of this queue pair. `permitted`: maps an egress to the one to use. Returns `None` if the
    /// message of the packet is gone.
    pub(crate) fn describe(
        &mut self,
        now: Time,
        slot: QpSlot,
        packet: &Packet,
        rails: &mut Rails,
        permitted: impl Fn(Egress) -> Egress,
    ) -> Option<Transmit> {
        let (body, egress) = match packet {
            Packet::Segment(stream, departure) => {
                return self.describe_segment(now, slot, *stream, departure, permitted);
            }
            Packet::Ack(stream) => self.describe_ack(now, *stream, rails)?,
            Packet::CreditRequest(stream) => self.describe_credit_request(now, *stream, rails)?,
            Packet::Confirm(egress) => (TransmitBody::Control(self.confirm()), *egress),
        };
        Some(Transmit { slot, egress: permitted(egress), body })
    }

    fn describe_ack(
        &mut self,
        now: Time,
        stream: Stream,
        rails: &mut Rails,
    ) -> Option<(TransmitBody, Egress)> {
        let rnr_delay = self.qp.config.rnr_delay;
        let streams = &mut self.streams;
        let (qp, token) = (streams.remote.qp, streams.remote.token);
        self.qp.counters.acks_sent += 1;
        let incoming = streams.incoming(stream)?;
        let ack = incoming.take_ack(now, qp, token, rnr_delay);
        let path = rails.of_ack(ack.path, incoming.repeats());
        incoming.on_acked_by(path);
        Some((TransmitBody::Ack(ack), Egress::Path(path)))
    }

    fn describe_segment(
        &self,
        now: Time,
        slot: QpSlot,
        stream: Stream,
        departure: &Departure,
        permitted: impl Fn(Egress) -> Egress,
    ) -> Option<Transmit> {
        let Departure { next, followers, path, batch_start, placement, .. } = *departure;
        let bytes = u32::from(next.len) + followers.bytes;
        let streams = &self.streams;
        let mut header = blank(streams, now, departure);
        let (gather, access) = match stream {
            Stream::Requests => {
                (self.streams.requests.queue.describe(next, bytes, &mut header), Access::NONE)
            }
            Stream::Responses => {
                let responses = streams.responses.as_ref()?;
                (responses.queue.describe(next, bytes, &mut header), Access::REMOTE_READ)
            }
        };
        let carries = header.opcode.has_payload();
        header.last = !carries || next.offset + u32::from(next.len) == header.message_len;
        let gather = gather?;
        let oversize = next.len > streams.path_mtu.on(path.rail());
        let (pd, crc) = (self.qp.config.pd, streams.remote.crc);
        // One expression, so that the compiler moves no field twice.
        Some(Transmit {
            slot,
            egress: permitted(Egress::Path(path)),
            body: TransmitBody::Segment {
                header,
                followers,
                gather,
                pd,
                access,
                path,
                batch_start,
                crc,
                oversize,
                placement,
            },
        })
    }

    /// Records that a request segment for direct placement was sent staged.
    pub(crate) fn staged(&mut self, header: &DataHeader) {
        self.streams.requests.stream.staged(header.psn);
    }

    /// Returns the stream of a segment that was handed out, and the number of its work request or
    /// response.
    pub(crate) fn source_of(&self, header: &DataHeader) -> Option<(Stream, u64)> {
        let streams = &self.streams;
        let (stream, outgoing) = match header.opcode.is_response() {
            true => (Stream::Responses, &streams.responses.as_ref()?.stream),
            false => (Stream::Requests, &streams.requests.stream),
        };
        let psn = Psn::expand(header.psn, outgoing.window.una());
        outgoing.window.get(psn).map(|segment| (stream, segment.source))
    }
}

/// Returns a header with all fields that do not depend on the message.
fn blank(streams: &Streams, now: Time, departure: &Departure) -> DataHeader {
    let Departure { next, psn, asks, again, .. } = *departure;
    DataHeader {
        opcode: Opcode::Send,
        qp: streams.remote.qp,
        token: streams.remote.token,
        psn: psn.wire(),
        ack_request: asks,
        solicited: false,
        last: true,
        retransmission: again,
        number: 0,
        address: 0,
        rkey: 0,
        message_len: 0,
        offset: next.offset,
        len: next.len,
        imm: 0,
        stamp: now.stamp(),
        payload_crc: 0,
        operands: None,
    }
}
