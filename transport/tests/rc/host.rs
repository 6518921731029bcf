//! A host: one queue pair, its memory and the driver of both.

use std::cell::RefCell;
use std::ops::Range;

use braid_transport::{
    Access, Admit, AtomicOp, Ended, EventKind, Landing, Memory, PdId, QpConfig, QpState, QueuePair,
    RcArrival, RcQp, RcRemote, Regions, SgList, Sge,
};
use braid_wire::{QpId, RcHeader, RcPacket, Time, Token};

use crate::kit::register;
use crate::network::ends;

/// Address of the first byte of a host's memory.
pub(crate) const BASE: u64 = 1 << 32;
pub(crate) const QP: [QpId; 2] = [QpId::new(0x11), QpId::new(0x22)];

/// The memory of a host, with one region that allows everything.
pub(crate) struct Arena {
    bytes: RefCell<Vec<u8>>,
    pub(crate) regions: Regions,
    pub(crate) key: u32,
    /// Memory that belongs to the application again: nothing may be written there.
    closed: Vec<Range<u64>>,
}

impl Arena {
    pub(crate) fn new(len: usize) -> Self {
        let mut regions = Regions::new([7; 16]);
        let key = register(&mut regions, PdId(0), BASE..BASE + len as u64, Access::ALL);
        Arena { bytes: RefCell::new(vec![0; len]), regions, key, closed: Vec::new() }
    }

    pub(crate) fn sge(&self, at: usize, len: u32) -> SgList {
        SgList::from([Sge { addr: BASE + at as u64, len, lkey: self.key }])
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        self.bytes.borrow()[at..at + len].to_vec()
    }

    pub(crate) fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.read(at, 8).try_into().unwrap())
    }

    pub(crate) fn close(&mut self, at: usize, len: usize) {
        if len > 0 {
            self.closed.push(BASE + at as u64..BASE + (at + len) as u64);
        }
    }

    fn place(&self, piece: &Sge, bytes: &[u8]) {
        let range = piece.addr..piece.addr + u64::from(piece.len);
        let is_open = |closed: &Range<u64>| range.end <= closed.start || closed.end <= range.start;
        assert!(self.closed.iter().all(is_open), "written after completion: {range:x?}");
        self.write((piece.addr - BASE) as usize, bytes);
    }
}

impl Memory for Arena {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, addr: u64, op: AtomicOp) -> Option<u64> {
        let at = (addr - BASE) as usize;
        let old = self.word(at);
        let new = match op {
            AtomicOp::FetchAdd(operands) => old.wrapping_add(operands.swap_or_add),
            AtomicOp::CompareSwap(operands) if operands.compare == old => operands.swap_or_add,
            AtomicOp::CompareSwap(_) => old,
        };
        self.write(at, &new.to_ne_bytes());
        Some(old)
    }
}

pub(crate) struct Host {
    pub(crate) index: usize,
    pub(crate) qp: RcQp,
    pub(crate) memory: Arena,
}

/// The queue pair of host `index`, in INIT.
pub(crate) fn unconnected(index: usize, config: QpConfig) -> QueuePair {
    let mut qp = QueuePair::new(QP[index], Token(0), config);
    qp.modify(QpState::Init).expect("it is in RESET");
    qp
}

impl Host {
    pub(crate) fn new(index: usize, config: QpConfig, remote: RcRemote, memory: usize) -> Self {
        let qp = RcQp::new(unconnected(index, config), remote).expect("it is in INIT");
        Host { index, qp, memory: Arena::new(memory) }
    }

    /// Takes a datagram. Returns false if its ICRC is wrong. `congestion`: whether it is marked.
    pub(crate) fn receive(&mut self, now: Time, datagram: &[u8], congestion: bool) -> bool {
        if ends(self.index).check(datagram, 0) != Some(0) {
            return false;
        }
        let packet = RcPacket::decode(datagram).expect("hosts send what decodes");
        assert_eq!(packet.header.qp, QP[self.index]);
        let _ = self.take(now, (&packet.header, congestion), packet.payload);
        true
    }

    /// Takes a packet, which may be marked.
    pub(crate) fn take(
        &mut self,
        now: Time,
        (header, congestion): (&RcHeader, bool),
        payload: &[u8],
    ) -> Admit {
        let arrival = RcArrival { header, len: payload.len() as u32, congestion };
        let admit = self.qp.on_arrival(now, &arrival, &self.memory);
        if let Admit::Take(landing) = &admit {
            match landing {
                Landing::Payload(pieces) => {
                    let mut rest = payload;
                    for piece in pieces {
                        let part = rest.split_off(..piece.len as usize).expect("pieces fit");
                        self.memory.place(piece, part);
                    }
                    assert!(rest.is_empty(), "the pieces do not take the whole payload");
                }
                Landing::Value(piece, value) => {
                    assert_eq!(piece.len, 8);
                    self.memory.place(piece, &value.to_ne_bytes());
                }
                Landing::Nothing => assert!(payload.is_empty(), "a payload is thrown away"),
            }
            self.qp.placed(now, &self.memory);
        }
        admit
    }

    /// Returns the next datagram to send, and its header.
    pub(crate) fn transmit(&mut self, now: Time) -> Option<(RcHeader, Vec<u8>)> {
        loop {
            let packet = self.qp.poll_transmit(now)?;
            let mut payload = Vec::new();
            let mut is_readable = true;
            for piece in &packet.gather {
                let (key, addr, len) = (piece.lkey, piece.addr, piece.len);
                let regions = &self.memory.regions;
                match regions.check(packet.pd, key, addr, len.into(), packet.access) {
                    Ok(addr) => {
                        payload.extend(self.memory.read((addr - BASE) as usize, len as usize));
                    }
                    Err(_) => is_readable = false,
                }
            }
            if !is_readable {
                self.qp.unreadable(&packet.header);
                continue;
            }
            let mut bytes = Vec::new();
            packet.header.encode(payload.len(), &mut bytes);
            bytes.extend_from_slice(&payload);
            bytes.resize(bytes.len() + RcHeader::padding(payload.len()), 0);
            ends(1 - self.index).append(&mut bytes, 0);
            return Some((packet.header, bytes));
        }
    }

    pub(crate) fn ended(&mut self) -> Vec<Ended> {
        std::iter::from_fn(|| self.qp.poll_ended()).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.qp.poll_event()).collect()
    }
}
