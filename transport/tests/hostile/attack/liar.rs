//! A peer that lies: it knows numbers, tokens and PSNs, and follows the protocol far enough to be
//! believed. In between it sends anything at all, with valid checks.

use std::collections::VecDeque;

use braid_wire::{
    Ack, AtomicOperands, Bitmap, Control, ControlKind, DataHeader, FinalAck, Marks, NakCode,
    Opcode, Packet, PathId, PathMarks, Probe, ProbeKind, QpId, Stream, Time, Token,
};

use super::choices::Choices;
use super::kit;
use super::memory::{HostMemory, Piece};

const PSN: u32 = 0xFF_FFFF;
/// Packets that it keeps, to send them again.
const KEPT: usize = 64;
/// Bytes of the longest message that keeps to the protocol.
const LONGEST: u32 = 600;

/// Addresses and keys of all memory of the other side.
#[derive(Clone, Copy)]
pub(crate) struct Loot {
    pieces: [Piece; 4],
}

impl Loot {
    pub(crate) fn new(memory: &HostMemory) -> Self {
        Loot { pieces: [memory.target, memory.exposed, memory.foreign, memory.buffers] }
    }

    fn target(&self) -> Piece {
        self.pieces[0]
    }
}

/// A message that it is in the middle of.
#[derive(Clone, Copy)]
struct Message {
    header: DataHeader,
}

/// One connection, from the view of the lying peer.
pub(crate) struct Liar {
    /// The queue pair that it lies to.
    qp: QpId,
    token: Token,
    /// Its own end.
    own: (QpId, Token),
    mtu: u16,
    /// The next PSN of its requests, of its responses.
    next: [u32; 2],
    /// One more than the last PSN that it has heard, of requests, of responses.
    heard: [u32; 2],
    stamp: u32,
    received: u32,
    /// SENDs so far, and requests that are answered or WRITE.
    counts: [u32; 2],
    /// Requests for which the other side waits.
    asked: VecDeque<DataHeader>,
    message: Option<Message>,
    kept: VecDeque<Vec<u8>>,
}

impl Liar {
    /// `first`: its own first PSN and that of the other side.
    pub(crate) fn new(
        (qp, token): (QpId, Token),
        own: (QpId, Token),
        first: [u32; 2],
        mtu: u16,
    ) -> Self {
        Liar {
            qp,
            token,
            own,
            mtu,
            next: [first[0]; 2],
            heard: [first[1]; 2],
            stamp: 0,
            received: 0,
            counts: [0; 2],
            asked: VecDeque::new(),
            message: None,
            kept: VecDeque::new(),
        }
    }

    /// Packets of an earlier connection that it still has.
    pub(crate) fn inherit(&mut self, earlier: &mut Liar) {
        self.kept = std::mem::take(&mut earlier.kept);
    }

    /// Takes a packet of the other side, if it is for this connection.
    pub(crate) fn overhear(&mut self, to: QpId, bytes: &[u8]) {
        if to == self.own.0 {
            self.hear(bytes);
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        match Packet::decode(bytes) {
            Ok(Packet::Data(header, _)) => {
                let stream = usize::from(header.opcode.is_response());
                let ahead = header.psn.wrapping_sub(self.heard[stream]) & PSN;
                if ahead < 1 << 22 {
                    self.heard[stream] = (header.psn + 1) & PSN;
                }
                (self.stamp, self.received) = (header.stamp, self.received.wrapping_add(1));
                let is_new = self.asked.iter().all(|asked| asked.number != header.number);
                if answer_to(header.opcode).is_some() && is_new && self.asked.len() < KEPT {
                    self.asked.push_back(header);
                }
            }
            Ok(Packet::Ack(ack)) => {
                let stream = ack.stream as usize;
                let behind = self.next[stream].wrapping_sub(ack.cumulative) & PSN;
                // It starts again from there, once something is missing.
                if behind > 48 || ack.nak.is_some() {
                    self.next[stream] = ack.cumulative;
                }
            }
            _ => {}
        }
    }

    /// The next lie, or something true.
    pub(crate) fn say(&mut self, now: Time, loot: &Loot, choices: &mut impl Choices) -> Vec<u8> {
        let bytes = match choices.below(20) {
            0..11 => self.data(now, loot, choices),
            11..16 => self.ack(choices),
            16 => self.control(now, choices),
            17 => self.probe(choices),
            _ if !self.kept.is_empty() => {
                return self.kept[choices.below(self.kept.len() as u64) as usize].clone();
            }
            _ => self.ack(choices),
        };
        if choices.one_in(8) {
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(bytes.clone());
        }
        bytes
    }

    fn data(&mut self, now: Time, loot: &Loot, choices: &mut impl Choices) -> Vec<u8> {
        let mut header = match self.message.take() {
            Some(message) if !choices.one_in(16) => message.header,
            _ => self.begin(loot, choices),
        };
        header.stamp = now.stamp();
        let stream = usize::from(header.opcode.is_response());
        header.psn = self.next[stream];
        // What is left out is a hole.
        let left_out = choices.one_in(24);
        if !left_out && !choices.one_in(8) {
            self.next[stream] = (header.psn + 1) & PSN;
        }
        self.go_on(&header);
        for _ in 0..choices.pick(&[0, 0, 1, 1, 2]) {
            self.lie(&mut header, loot, choices);
        }
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        let filler = header.psn as u8;
        bytes.resize(bytes.len() + usize::from(header.len), filler);
        bytes
    }

    /// The rest of a message comes next.
    fn go_on(&mut self, header: &DataHeader) {
        if header.opcode.has_payload() && !header.last {
            let offset = header.offset + u32::from(header.len);
            let left = header.message_len - offset;
            let len = left.min(self.mtu.into()) as u16;
            let last = left == u32::from(len);
            self.message = Some(Message { header: DataHeader { offset, len, last, ..*header } });
        }
    }

    /// The first segment of a message that keeps to the protocol.
    fn begin(&mut self, loot: &Loot, choices: &mut impl Choices) -> DataHeader {
        let opcode = match self.asked.front() {
            Some(asked) if choices.one_in(2) => answer_to(asked.opcode).expect("it was asked"),
            _ => choices.pick(&[
                Opcode::Send,
                Opcode::SendImm,
                Opcode::Write,
                Opcode::WriteImm,
                Opcode::ReadRequest,
                Opcode::CompareSwap,
                Opcode::FetchAdd,
            ]),
        };
        let mut header = self.blank(opcode, loot, choices);
        match opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                let asked = self.asked.pop_front().expect("it was asked");
                (header.number, header.address) = (asked.number, 0);
                let reads = opcode == Opcode::ReadResponse;
                header.message_len = if reads { asked.message_len } else { 0 };
            }
            Opcode::Send | Opcode::SendImm | Opcode::WriteImm => {
                header.number = self.counts[0];
                self.counts[0] = self.counts[0].wrapping_add(1);
                self.counts[1] = self.counts[1].wrapping_add(1);
            }
            _ => {
                header.number = self.counts[1];
                self.counts[1] = self.counts[1].wrapping_add(1);
            }
        }
        if opcode.has_payload() {
            header.len = header.message_len.min(self.mtu.into()) as u16;
            header.last = u32::from(header.len) == header.message_len;
        }
        header
    }

    fn blank(&self, opcode: Opcode, loot: &Loot, choices: &mut impl Choices) -> DataHeader {
        let piece = loot.target();
        let operands = AtomicOperands { swap_or_add: 1, compare: 0 };
        let ack_request = choices.one_in(4);
        let address = piece.addr + choices.below(piece.len - u64::from(LONGEST)) / 8 * 8;
        let message_len =
            if opcode.has_operands() { 8 } else { choices.below(LONGEST.into()) as u32 };
        DataHeader {
            ack_request,
            address,
            rkey: piece.key,
            message_len,
            operands: opcode.has_operands().then_some(operands),
            ..kit::header(Time::ZERO, opcode, (self.qp, self.token), 0)
        }
    }

    /// One field becomes something else. Lengths stay such as a decoder lets through.
    fn lie(&mut self, header: &mut DataHeader, loot: &Loot, choices: &mut impl Choices) {
        match choices.below(14) {
            0 | 1 => header.psn = header.psn.wrapping_add(nearby(choices)) & PSN,
            2 => header.number = header.number.wrapping_add(nearby(choices)),
            3 => {
                let piece = choices.pick(&loot.pieces);
                header.rkey = piece.key;
                header.address = piece.addr;
            }
            4 => {
                let piece = choices.pick(&loot.pieces);
                header.address = choices.pick(&[
                    piece.addr.wrapping_sub(1),
                    piece.addr + piece.len - 1,
                    piece.addr + piece.len,
                    u64::MAX - 7,
                    0,
                ]);
            }
            5 => header.rkey = choices.pick(&[0, header.rkey ^ 1, u32::MAX, loot.pieces[3].key]),
            6 => self.resize(header, choices),
            7 => self.shift(header, choices),
            8 => header.stamp = header.stamp.wrapping_add(choices.any_u32()),
            9 => header.retransmission = !header.retransmission,
            10 => header.ack_request = !header.ack_request,
            11 => header.imm = choices.any_u32(),
            12 => {
                header.opcode = choices.pick(&Opcode::DATA);
                let operands = AtomicOperands { swap_or_add: u64::MAX, compare: 1 };
                header.operands = header.opcode.has_operands().then_some(operands);
                if !header.opcode.has_payload() {
                    (header.len, header.offset, header.last) = (0, 0, true);
                }
            }
            _ => header.solicited = !header.solicited,
        }
    }

    /// Another length of the message.
    fn resize(&self, header: &mut DataHeader, choices: &mut impl Choices) {
        let end = header.offset + u32::from(header.len);
        header.message_len = match choices.below(4) {
            0 => end,
            1 => end + 1,
            2 => u32::MAX,
            _ => end.saturating_add(choices.any_u32()),
        };
        header.last = end == header.message_len || !header.opcode.has_payload();
    }

    /// Another place in the message, another number of bytes.
    fn shift(&self, header: &mut DataHeader, choices: &mut impl Choices) {
        if !header.opcode.has_payload() || header.message_len == 0 {
            return;
        }
        let most = header.message_len.min(2 * u32::from(self.mtu));
        header.len = 1 + choices.below(most.into()) as u16;
        let latest = header.message_len - u32::from(header.len);
        header.offset = choices.below(u64::from(latest) + 1) as u32;
        header.last = header.offset == latest;
    }

    fn ack(&mut self, choices: &mut impl Choices) -> Vec<u8> {
        let stream = if choices.one_in(3) { Stream::Responses } else { Stream::Requests };
        let name = (self.qp, self.token);
        let mut ack = kit::ack(name, stream, self.heard[stream as usize], self.stamp);
        (ack.rnr_delay_us, ack.received) = (10, self.received);
        for _ in 0..choices.pick(&[0, 1, 1, 2, 3]) {
            lie_of_arrivals(&mut ack, choices);
        }
        let mut bytes = Vec::new();
        ack.encode(&mut bytes);
        bytes
    }

    fn control(&mut self, now: Time, choices: &mut impl Choices) -> Vec<u8> {
        let mut control = Control {
            kind: ControlKind::Ping,
            qp: self.qp,
            from: self.own.0,
            token: self.token,
            stamp: now.stamp(),
        };
        match choices.below(40) {
            0 => {
                let mut last = FinalAck {
                    requests: self.heard[0],
                    responses: self.heard[1],
                    refusal: choices.one_in(4).then_some(NakCode::RemoteAccess),
                };
                if choices.one_in(2) {
                    last.requests = last.requests.wrapping_add(nearby(choices)) & PSN;
                    last.responses = last.responses.wrapping_add(nearby(choices)) & PSN;
                }
                control.kind = ControlKind::Disconnect(last);
            }
            1 => (control.kind, control.token) = (ControlKind::Unknown, self.own.1),
            2 => (control.kind, control.token) = (ControlKind::Confirm, self.own.1),
            3..20 => control.kind = ControlKind::Pong,
            20 => control.token.0 ^= 1,
            21 => control.stamp = choices.any_u32(),
            22 => control.from = QpId::new(choices.below(2) as u32),
            _ => {}
        }
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        bytes
    }

    fn probe(&mut self, choices: &mut impl Choices) -> Vec<u8> {
        let kind = choices.pick(&[ProbeKind::Probe, ProbeKind::Probed]);
        let size = choices.pick(&[64, 1200, 1201, 1472, 9000, u16::MAX]);
        let serial = if choices.one_in(2) { choices.below(16) as u32 } else { choices.any_u32() };
        let mut bytes = Vec::new();
        let from = if choices.one_in(4) { QpId::new(2) } else { self.own.0 };
        Probe { kind, qp: self.qp, from, token: self.token, size, serial }.encode(&mut bytes);
        bytes
    }
}

/// Returns the opcode of the response to a request.
fn answer_to(opcode: Opcode) -> Option<Opcode> {
    match opcode {
        Opcode::ReadRequest => Some(Opcode::ReadResponse),
        Opcode::CompareSwap | Opcode::FetchAdd => Some(Opcode::AtomicResponse),
        _ => None,
    }
}

/// A little more or less, or anything.
fn nearby(choices: &mut impl Choices) -> u32 {
    match choices.below(8) {
        0..3 => choices.below(4) as u32,
        3 => (choices.below(4) as u32).wrapping_neg(),
        4 => choices.below(5000) as u32,
        5 => (choices.below(5000) as u32).wrapping_neg(),
        6 => 1 << choices.below(32),
        _ => choices.any_u32(),
    }
}

fn lie_of_arrivals(ack: &mut Ack, choices: &mut impl Choices) {
    match choices.below(9) {
        0 | 1 => ack.cumulative = ack.cumulative.wrapping_add(nearby(choices)) & PSN,
        2 => ack.highest = ack.highest.wrapping_add(nearby(choices)) & PSN,
        3 => {
            let code = choices.pick(&[
                NakCode::ReceiverNotReady,
                NakCode::ReceiverNotReady,
                NakCode::ReceiverNotReady,
                NakCode::InvalidRequest,
                NakCode::RemoteAccess,
                NakCode::RemoteOperational,
            ]);
            // Most of them end the connection: rarely, or little else is seen.
            if code == NakCode::ReceiverNotReady || choices.one_in(8) {
                ack.nak = Some((code, ack.cumulative.wrapping_add(nearby(choices)) & PSN));
            }
            ack.rnr_delay_us = choices.pick(&[0, 1, 100, u32::MAX]);
        }
        4 => {
            ack.path = PathId::new(choices.any_u32() as u16);
            ack.marks = Marks::new((0..choices.below(5)).map(|_| PathMarks {
                path: PathId::new(choices.any_u32() as u16),
                count: choices.any_u32() as u16,
            }));
        }
        5 => ack.stamp = ack.stamp.wrapping_add(nearby(choices)),
        6 => ack.delay_ns = choices.pick(&[0, 1000, u32::MAX]),
        7 => (ack.received, ack.duplicates) = (nearby(choices), nearby(choices)),
        _ => {
            let words = choices.below(5);
            let mut bits: Vec<u64> = (0..words)
                .map(|_| u64::from(choices.any_u32()) << 32 | u64::from(choices.any_u32()))
                .collect();
            if let Some(first) = bits.first_mut() {
                *first &= !1; // the format has no bit 0
            }
            ack.bitmap = Bitmap::new(bits.into_iter().collect());
        }
    }
}
