//! The memory of the rank that is put to: it knows which bytes of each WRITE are in place, and
//! judges each signal.

use std::cell::RefCell;

use braid_transport::{
    Access, AtomicOp, Landing, Memory, PdId, Regions, RemoteAddr, SendOp, SendWr, SgList, Sge,
};
use braid_wire::AtomicOperands;

use crate::kit;

/// The text of a violation.
pub(crate) const OUT_OF_ORDER: &str = "is seen before";

const BASE: u64 = 1 << 20;
/// Bytes for each work request.
pub(crate) const ROOM: u64 = 1 << 17;
const WORD: u64 = 64;

/// A request, as the proxy makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Put(u32),
    Get(u32),
    /// Adds the number of the request to a word.
    Signal,
}

/// The memory; see the module.
pub(crate) struct Board {
    regions: Regions,
    key: u32,
    plan: Vec<Op>,
    /// Bytes of each request that are in place.
    placed: RefCell<Vec<u32>>,
    /// Requests whose signals have taken effect.
    signals: RefCell<Vec<usize>>,
}

impl Board {
    pub(crate) fn new(plan: Vec<Op>) -> Self {
        let mut regions = Regions::new([0; 16]);
        let end = BASE + (plan.len() as u64 + 1) * ROOM;
        let key = kit::register(&mut regions, PdId(0), 0..end, Access::ALL);
        let placed = RefCell::new(vec![0; plan.len()]);
        Board { regions, key, plan, placed, signals: RefCell::default() }
    }

    pub(crate) fn plan(&self) -> &[Op] {
        &self.plan
    }

    /// The work request of a request.
    pub(crate) fn work(&self, index: usize) -> SendWr {
        let addr = BASE + index as u64 * ROOM;
        let remote = RemoteAddr { addr, rkey: self.key };
        let (op, len) = match self.plan[index] {
            Op::Put(len) => (SendOp::Write { remote, imm: None }, len),
            Op::Get(len) => (SendOp::Read { remote }, len),
            Op::Signal => {
                let remote = RemoteAddr { addr: WORD, rkey: self.key };
                (SendOp::FetchAdd { remote, add: index as u64 }, 8)
            }
        };
        let sges = SgList::from_iter([Sge { addr, len, lkey: self.key }]);
        SendWr { id: index as u64, op, sges, signalled: true, solicited: false, fence: false }
    }

    /// Records that a packet is in place.
    pub(crate) fn place(&self, landing: &Landing) {
        let Landing::Payload(pieces) = landing else { return };
        for piece in pieces {
            let index = ((piece.addr - BASE) / ROOM) as usize;
            let placed = &mut self.placed.borrow_mut()[index];
            *placed += piece.len;
            if let Op::Put(len) = self.plan[index] {
                assert!(*placed <= len, "WRITE {index} of {len} bytes is placed twice");
            }
        }
    }

    /// Number of signals that have taken effect.
    pub(crate) fn signals(&self) -> usize {
        self.signals.borrow().len()
    }
}

impl Memory for Board {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    /// A signal is seen: all earlier WRITEs have to be.
    fn atomic(&self, addr: u64, op: AtomicOp) -> Option<u64> {
        assert_eq!(addr, WORD);
        let AtomicOp::FetchAdd(AtomicOperands { swap_or_add, .. }) = op else {
            panic!("{op:?} is no signal")
        };
        let signal = swap_or_add as usize;
        let mut signals = self.signals.borrow_mut();
        let earlier = signals.last().map_or(0, |last| last + 1);
        let skipped = self.plan[earlier..signal].contains(&Op::Signal);
        assert!(earlier <= signal && !skipped, "signal {signal} after {signals:?}");
        signals.push(signal);
        let placed = self.placed.borrow();
        for (index, op) in self.plan[..signal].iter().enumerate() {
            if let Op::Put(len) = *op {
                let placed = placed[index];
                assert!(
                    placed == len,
                    "signal {signal} {OUT_OF_ORDER} WRITE {index}, of which {placed} of {len} \
                     bytes are in place"
                );
            }
        }
        Some(0)
    }
}
