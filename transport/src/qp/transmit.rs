//! What a queue pair sends next: acknowledgements it owes, what was lost, then what is new.

use braid_lb::PathSet;
use braid_wire::{Ack, Control, ControlKind, Crc, DataHeader, Opcode, Psn, Stream, Time};

use super::incoming::Incoming;
use super::room::{Block, Room};
use super::send_queue::{Limits, Next};
use super::train::OpenTrain;
use super::window::Segment;
use super::{Link, QpState, QueuePair};
use crate::{Access, Remote, SgList, TransmitBody};

/// What it came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A packet; `yields`: the train it belongs to is full, another queue pair may have its turn.
    Packet { body: TransmitBody, yields: bool },
    /// Nothing until something happens to this queue pair.
    Idle,
    /// Nothing until the endpoint has a budget of so many bytes.
    NoBudget { needs: u64 },
}

/// What the endpoint lets a queue pair put in flight.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    pub(crate) bytes: u64,
    /// Others wait for it.
    pub(crate) is_shared: bool,
    /// The train that it may join, and then the one that it has joined or begun.
    pub(crate) train: &'a mut OpenTrain,
}

impl QueuePair {
    /// The next packet.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        paths: &mut PathSet,
        mut budget: Budget<'_>,
    ) -> Outcome {
        if let Some(ack) = self.poll_ack(|incoming| incoming.owes_ack_first(now), now) {
            return Outcome::Packet { body: TransmitBody::Ack(ack), yields: false };
        }
        let data = self.poll_data(now, paths, &mut budget);
        if matches!(data, Outcome::Packet { .. }) {
            return data;
        }
        match self.poll_ack(|incoming| incoming.owes_ack(now), now) {
            Some(ack) => Outcome::Packet { body: TransmitBody::Ack(ack), yields: false },
            None => data,
        }
    }

    fn poll_data(&mut self, now: Time, paths: &mut PathSet, budget: &mut Budget<'_>) -> Outcome {
        let sends = matches!(self.state, QpState::ReadyToSend | QpState::SendQueueDrained);
        let Some(first) = self.link.as_ref().filter(|_| sends).map(|link| link.turn) else {
            let confirm = self.poll_confirm();
            return confirm.map_or(Outcome::Idle, |body| Outcome::Packet { body, yields: false });
        };
        let mut outcome = Outcome::Idle;
        for stream in [first, other(first)] {
            match self.poll_stream(now, stream, paths, budget) {
                Ok(body) => return self.sent_on(now, stream, body),
                Err(Block::Budget(needs)) => outcome = outcome.or_needs(needs),
                Err(Block::Nothing | Block::Peer | Block::Window | Block::Rate) => {}
            }
        }
        outcome
    }

    /// The streams take turns train by train.
    fn sent_on(&mut self, now: Time, stream: Stream, body: TransmitBody) -> Outcome {
        let mut yields = false;
        if let Some(link) = self.link.as_mut() {
            link.all_incoming_mut().for_each(|incoming| incoming.on_reply(now));
            yields = link.outgoing(stream).is_some_and(|outgoing| outgoing.turn_has_ended());
            link.turn = if yields { other(stream) } else { stream };
        }
        Outcome::Packet { body, yields }
    }

    fn poll_ack(&mut self, owes: impl Fn(&Incoming) -> bool, now: Time) -> Option<Ack> {
        let rnr_delay = self.config.rnr_delay;
        let link = self.link.as_mut()?;
        let (qp, token) = (link.remote.qp, link.remote.token);
        let incoming = link.all_incoming_mut().find(|incoming| owes(incoming))?;
        self.counters.acks_sent += 1;
        Some(incoming.take_ack(now, qp, token, rnr_delay))
    }

    /// A control packet for the other end.
    pub(crate) fn control(&self, kind: ControlKind, stamp: u32) -> Option<Control> {
        let remote = self.remote()?;
        Some(Control { kind, qp: remote.qp, from: self.id, token: remote.token, stamp })
    }

    fn poll_stream(
        &mut self,
        now: Time,
        stream: Stream,
        paths: &mut PathSet,
        budget: &mut Budget<'_>,
    ) -> Result<TransmitBody, Block> {
        let (next, lost) = self.choose(now, stream, budget.bytes)?;
        let Some(link) = self.link.as_mut() else { return Err(Block::Nothing) };
        let (limit, oversize) = (link.trains, next.len > link.path_mtu);
        let Some(outgoing) = link.outgoing(stream) else { return Err(Block::Nothing) };
        let psn = lost.unwrap_or(outgoing.window.next());
        let (path, train_start) =
            outgoing.take_path(now, psn, next.len, paths, limit, budget.train);
        paths.on_sent(path, lost.is_some());
        outgoing.pace(now, next.len, limit.segments());
        let writes = || self.sq.writes(next);
        let (psn, placement) = outgoing.enter(now, next, lost, path, writes);
        match (lost, stream) {
            (Some(_), _) => {}
            (None, Stream::Requests) => self.sq.advance(next, psn),
            (None, Stream::Responses) => {
                if let Some(answers) = &mut link.answers {
                    answers.owed.advance(next, psn);
                }
            }
        }
        let sent = Segment::wire_len(next.len);
        let left = budget.bytes.saturating_sub(sent);
        let following = self.choose(now, stream, left);
        let outgoing = self.link.as_mut().and_then(|link| link.outgoing(stream));
        let Some(outgoing) = outgoing else { return Err(Block::Nothing) };
        let is_last = match following {
            // The others have their turns first.
            Ok(_) => budget.is_shared && outgoing.turn_has_ended(),
            Err(Block::Rate) => outgoing.is_held_for_long(now),
            Err(Block::Nothing | Block::Peer | Block::Window | Block::Budget(_)) => true,
        };
        let asks = outgoing.on_sent(now, next.len, lost.is_some(), is_last);
        self.counters.segments_sent += 1;
        self.counters.retransmitted += u64::from(lost.is_some());
        self.counters.bytes_sent += u64::from(next.len);
        let Some((header, gather)) = self.describe(now, stream, next, psn) else {
            return Err(Block::Nothing);
        };
        let header = DataHeader { ack_request: asks, retransmission: lost.is_some(), ..header };
        let access = match stream {
            Stream::Requests => Access::NONE,
            Stream::Responses => Access::REMOTE_READ,
        };
        let (pd, crc) = (self.config.pd, self.crc());
        Ok(TransmitBody::Segment {
            header,
            gather,
            pd,
            access,
            path,
            train_start,
            crc,
            oversize,
            placement,
        })
    }

    fn crc(&self) -> Crc {
        self.remote().map_or(Crc::On, |remote| remote.crc)
    }

    /// The segment that goes out next, and its PSN if it was lost.
    fn choose(
        &mut self,
        now: Time,
        stream: Stream,
        budget: u64,
    ) -> Result<(Next, Option<Psn>), Block> {
        let candidate = self.candidate(now, stream);
        let Some(link) = self.link.as_mut() else { return Err(Block::Nothing) };
        let Remote { window, segments, .. } = link.remote;
        let room = Room { window, segments, budget, train: link.trains.train() };
        let Some(outgoing) = link.outgoing(stream) else { return Err(Block::Nothing) };
        let chosen = candidate.ok_or(Block::Nothing).and_then(|(next, lost)| {
            outgoing.may_send(now, next.len, lost.is_none(), room)?;
            Ok((next, lost))
        });
        if let Err(block) = chosen {
            outgoing.on_blocked(block);
        }
        chosen
    }

    /// What is lost goes before what is new.
    fn candidate(&mut self, now: Time, stream: Stream) -> Option<(Next, Option<Psn>)> {
        let link = self.link.as_mut()?;
        if let Some((psn, lost)) = link.outgoing(stream)?.window.peek_lost() {
            let next = Next { source: lost.source, offset: lost.offset, len: lost.len };
            return Some((next, Some(psn)));
        }
        let mtu = link.mtu();
        let limits = Limits {
            mtu,
            write_mtu: link.requests.write_mtu(now, mtu),
            max_rd_atomic: link.remote.max_rd_atomic,
            draining: self.state == QpState::SendQueueDrained,
        };
        let next = match stream {
            Stream::Requests => self.sq.peek(limits),
            Stream::Responses => link.answers.as_ref()?.owed.peek(limits.mtu),
        };
        next.map(|next| (next, None))
    }

    fn describe(
        &self,
        now: Time,
        stream: Stream,
        next: Next,
        psn: Psn,
    ) -> Option<(DataHeader, SgList)> {
        let link = self.link.as_ref()?;
        let mut header = blank(link, now, next, psn);
        let gather = match stream {
            Stream::Requests => self.sq.describe(next, &mut header),
            Stream::Responses => link.answers.as_ref()?.owed.describe(next, &mut header),
        }?;
        let carries = header.opcode.has_payload();
        header.last = !carries || next.offset + u32::from(next.len) == header.message_len;
        Some((header, gather))
    }

    /// A segment of a request was handed out blind and sent staged.
    pub(crate) fn staged(&mut self, header: &DataHeader) {
        if let Some(link) = self.link.as_mut() {
            link.requests.staged(header.psn);
        }
    }

    /// The stream and the work request, or response, of a segment that was handed out.
    pub(crate) fn source_of(&self, header: &DataHeader) -> Option<(Stream, u64)> {
        let link = self.link.as_ref()?;
        let (stream, outgoing) = match header.opcode.is_response() {
            true => (Stream::Responses, &link.answers.as_ref()?.stream),
            false => (Stream::Requests, &link.requests),
        };
        let psn = Psn::expand(header.psn, outgoing.window.una());
        outgoing.window.get(psn).map(|segment| (stream, segment.source))
    }
}

impl Outcome {
    /// One stream could send with so many bytes of budget; of two the more modest counts.
    fn or_needs(self, bytes: u64) -> Self {
        match self {
            Outcome::NoBudget { needs } => Outcome::NoBudget { needs: needs.min(bytes) },
            _ => Outcome::NoBudget { needs: bytes },
        }
    }
}

fn other(stream: Stream) -> Stream {
    match stream {
        Stream::Requests => Stream::Responses,
        Stream::Responses => Stream::Requests,
    }
}

/// A header with everything that does not depend on the message.
fn blank(link: &Link, now: Time, next: Next, psn: Psn) -> DataHeader {
    DataHeader {
        opcode: Opcode::Send,
        qp: link.remote.qp,
        token: link.remote.token,
        psn: psn.wire(),
        ack_request: false,
        solicited: false,
        last: true,
        retransmission: false,
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
