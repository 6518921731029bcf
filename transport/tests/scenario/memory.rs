//! A host's memory: fake addresses, real bytes, and a shadow of what the bytes have to be.
//!
//! Every buffer of the application is an *area*. Nothing may be placed outside of an area, nor in
//! an area whose work request is not under way, nor twice. Between areas lie guard bytes.

use std::cell::RefCell;

use braid_transport::{Access, AtomicOp, Memory, PdId, Region, Regions, Sge};

use super::pattern::{background, differs};

/// A region is far larger than what is used of it, so that it can be registered before it is
/// filled.
const REGION_LEN: u64 = 1 << 26;
const BLOCK_SHIFT: u32 = 40;
/// Distance between the addresses of bytes and the addresses that work requests and peers use, so
/// that a mix-up is found.
const NAMES: u64 = 1 << 62;

/// The message of a failure that a direct write after the completion causes.
pub(crate) const BLIND_AND_LATE: &str =
    "are written directly, but their work request is not under way";

/// The use of a block of memory. Its region allows as little as possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Use {
    /// SEND and WRITE take their payload from here.
    Source,
    /// Receives, READs and atomic results land here.
    Landing,
    /// The peer WRITEs and READs.
    Target,
    /// The peer only READs.
    Exposed,
    /// The peer's atomics.
    Counter,
    /// The peer READs, until it is deregistered under its hands.
    Doomed,
}

const USES: [Use; 6] =
    [Use::Source, Use::Landing, Use::Target, Use::Exposed, Use::Counter, Use::Doomed];

impl Use {
    fn access(self) -> Access {
        match self {
            Use::Source => Access::NONE,
            Use::Landing => Access::LOCAL_WRITE,
            Use::Target => Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ,
            Use::Exposed | Use::Doomed => Access::REMOTE_READ,
            Use::Counter => Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
        }
    }
}

/// Whether something may be placed in an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The work request was not posted yet.
    Planned,
    /// The work request was posted, and has not completed.
    Open,
    /// The work request has completed: the application owns the bytes again.
    Closed,
}

/// Names an area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AreaId {
    block: usize,
    index: usize,
}

struct Area {
    addr: u64,
    len: u64,
    state: State,
    placed: u64,
}

struct Block {
    base: u64,
    key: u32,
    pd: PdId,
    bytes: RefCell<Vec<u8>>,
    shadow: Vec<u8>,
    areas: Vec<Area>,
}

/// An atomic that was carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicRecord {
    pub(crate) addr: u64,
    pub(crate) op: AtomicOp,
    pub(crate) before: u64,
}

pub(crate) struct HostMemory {
    regions: Regions,
    blocks: Vec<Block>,
    atomics: RefCell<Vec<AtomicRecord>>,
}

impl HostMemory {
    /// Registers one region of each use for each protection domain.
    pub(crate) fn new(domains: u32, odd: u64) -> Self {
        let mut memory = HostMemory {
            regions: Regions::new([0; 16]),
            blocks: Vec::new(),
            atomics: RefCell::default(),
        };
        for pd in (0..domains).map(PdId) {
            for usage in USES {
                let base = (memory.blocks.len() as u64 + 1) << BLOCK_SHIFT | (odd & 0xFFF);
                let region = Region {
                    pd,
                    addr: base,
                    iova: base + NAMES,
                    len: REGION_LEN,
                    access: usage.access(),
                    nics: None,
                };
                let key = memory.regions.insert(region).expect("a free key");
                memory.blocks.push(Block::new(base, key, pd));
            }
        }
        memory
    }

    fn block_of(pd: PdId, usage: Use) -> usize {
        pd.0 as usize * USES.len() + usage as usize
    }

    /// Reserves `len` bytes behind `gap` guard bytes, at a multiple of `align`.
    pub(crate) fn reserve(
        &mut self,
        pd: PdId,
        usage: Use,
        len: u64,
        gap: u64,
        align: u64,
    ) -> AreaId {
        let block = Self::block_of(pd, usage);
        let index = self.blocks[block].reserve(len, gap.max(1), align);
        AreaId { block, index }
    }

    /// Deregisters all doomed memory.
    pub(crate) fn withdraw(&mut self) {
        for block in self.blocks.iter().skip(Use::Doomed as usize).step_by(USES.len()) {
            assert!(self.regions.remove(block.key));
        }
    }

    pub(crate) fn sge(&self, id: AreaId) -> Sge {
        let area = self.area(id);
        Sge { addr: self.addr(id), len: area.len as u32, lkey: self.blocks[id.block].key }
    }

    pub(crate) fn key(&self, id: AreaId) -> u32 {
        self.blocks[id.block].key
    }

    /// The first address behind the region of an area.
    pub(crate) fn region_end(&self, id: AreaId) -> u64 {
        self.blocks[id.block].base + NAMES + REGION_LEN
    }

    pub(crate) fn addr(&self, id: AreaId) -> u64 {
        self.area(id).addr + NAMES
    }

    pub(crate) fn len(&self, id: AreaId) -> u64 {
        self.area(id).len
    }

    fn area(&self, id: AreaId) -> &Area {
        &self.blocks[id.block].areas[id.index]
    }

    pub(crate) fn set_state(&mut self, id: AreaId, state: State) {
        self.blocks[id.block].areas[id.index].state = state;
    }

    /// The application writes its own memory.
    pub(crate) fn write(&mut self, id: AreaId, bytes: impl IntoIterator<Item = u8>) {
        self.write_at(id, 0, bytes);
    }

    /// The same, from `skip` bytes behind its beginning on.
    pub(crate) fn write_at(&mut self, id: AreaId, skip: u64, bytes: impl IntoIterator<Item = u8>) {
        let block = &mut self.blocks[id.block];
        let at = (block.areas[id.index].addr + skip - block.base) as usize;
        let mut memory = block.bytes.borrow_mut();
        for (offset, byte) in bytes.into_iter().enumerate() {
            memory[at + offset] = byte;
            block.shadow[at + offset] = byte;
        }
    }

    /// Sets the bytes that the model expects.
    pub(crate) fn expect(&mut self, id: AreaId, bytes: impl IntoIterator<Item = u8>) {
        let block = &mut self.blocks[id.block];
        let at = (block.areas[id.index].addr - block.base) as usize;
        for (offset, byte) in bytes.into_iter().enumerate() {
            block.shadow[at + offset] = byte;
        }
    }

    /// Expects the bytes that are there, because the work request failed.
    pub(crate) fn forget(&mut self, id: AreaId) {
        let now = self.read(id);
        self.expect(id, now);
    }

    pub(crate) fn read(&self, id: AreaId) -> Vec<u8> {
        let area = self.area(id);
        self.blocks[id.block].slice(area.addr, area.len)
    }

    /// Puts a part of a payload where the core wants it.
    pub(crate) fn place(&mut self, pd: PdId, piece: &Sge, payload: &[u8]) {
        assert_eq!(u64::from(piece.len), payload.len() as u64);
        if payload.is_empty() {
            return;
        }
        let (name, len) = (piece.addr + NAMES, piece.len.into());
        let checked = self.regions.check(pd, piece.lkey, name, len, Access::LOCAL_WRITE);
        assert_eq!(checked, Ok(piece.addr), "placement at {piece:?} breaks the rules of regions");
        let id = self.find(piece.addr, piece.len.into());
        let id =
            id.unwrap_or_else(|| panic!("placement at {piece:x?} is in no buffer, or leaves it"));
        let block = &mut self.blocks[id.block];
        let area = &mut block.areas[id.index];
        assert_eq!(
            area.state,
            State::Open,
            "placement at {piece:x?}, whose work request is not under way"
        );
        area.placed += u64::from(piece.len);
        assert!(area.placed <= area.len, "bytes at {piece:x?} were placed twice");
        let at = (piece.addr - block.base) as usize;
        block.bytes.borrow_mut()[at..at + payload.len()].copy_from_slice(payload);
    }

    /// Writes a payload as a NIC does, unchecked. Returns false if the key does not allow it.
    pub(crate) fn write_directly(
        &mut self,
        pd: PdId,
        rkey: u32,
        addr: u64,
        payload: &[u8],
    ) -> bool {
        let len = payload.len() as u64;
        let Ok(addr) = self.regions.check(pd, rkey, addr, len, Access::REMOTE_WRITE) else {
            return false;
        };
        let used = (addr >> BLOCK_SHIFT) as usize - 1;
        let block = &self.blocks[used];
        if addr - block.base >= block.bytes.borrow().len() as u64 {
            return true; // the empty end of a region, where a message that leaves it begins
        }
        let id = self.find(addr, len).expect("a direct write is in a buffer");
        let block = &mut self.blocks[id.block];
        let state = block.areas[id.index].state;
        assert_eq!(state, State::Open, "{len} bytes at {addr:#x} {BLIND_AND_LATE}");
        let at = (addr - block.base) as usize;
        block.bytes.borrow_mut()[at..at + payload.len()].copy_from_slice(payload);
        true
    }

    /// Returns the payload to send, or `None` if its region is gone or does not allow it.
    pub(crate) fn gather(&self, pd: PdId, access: Access, pieces: &[Sge]) -> Option<Vec<u8>> {
        let mut payload = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            let len = piece.len.into();
            let addr = self.regions.check(pd, piece.lkey, piece.addr, len, access).ok()?;
            let id = self.find(addr, len);
            let id = id.unwrap_or_else(|| panic!("bytes to send at {piece:x?} are in no buffer"));
            // The peer may read what it has a key for at any time; the rest is the application's
            // again.
            let stale = access == Access::NONE && self.area(id).state == State::Closed;
            assert!(!stale, "bytes at {piece:x?} are sent after their work request has completed");
            payload.extend(self.blocks[id.block].slice(addr, len));
        }
        Some(payload)
    }

    /// Returns the area at an address that the peer named, if it has this use.
    pub(crate) fn area_at(&self, name: u64, len: u64, usage: Use) -> Option<AreaId> {
        let addr = name.checked_sub(NAMES)?;
        let id = self.find(addr, len)?;
        let fits = id.block % USES.len() == usage as usize && self.area(id).addr == addr;
        fits.then_some(id)
    }

    fn find(&self, addr: u64, len: u64) -> Option<AreaId> {
        let block = usize::try_from((addr >> BLOCK_SHIFT).checked_sub(1)?).ok()?;
        let areas = &self.blocks.get(block)?.areas;
        let index = areas.partition_point(|area| area.addr <= addr).checked_sub(1)?;
        let area = &areas[index];
        (addr + len <= area.addr + area.len).then_some(AreaId { block, index })
    }

    /// The atomics so far, in the order in which they were carried out.
    pub(crate) fn atomics(&self) -> Vec<AtomicRecord> {
        self.atomics.borrow().clone()
    }

    /// Compares these areas with what the model expects.
    pub(crate) fn audit_areas(&self, areas: &[AreaId]) {
        for id in areas {
            let block = &self.blocks[id.block];
            let at = (self.area(*id).addr - block.base) as usize;
            let shadow = &block.shadow[at..at + self.area(*id).len as usize];
            let wrong = differs(&self.read(*id), shadow);
            assert_eq!(wrong, None, "a byte behind the message was touched");
        }
    }

    /// Sets the value of a counter that the model expects.
    pub(crate) fn expect_value(&mut self, addr: u64, value: u64) {
        let id = self.find(addr, 8).expect("a counter");
        self.expect(id, value.to_ne_bytes());
    }

    /// Compares every byte, guards included, with what the model expects.
    pub(crate) fn audit(&self) {
        for block in &self.blocks {
            if let Some(at) = differs(&block.bytes.borrow(), &block.shadow) {
                let addr = block.base + at as u64;
                panic!("the byte at {addr:#x} ({:?}) is not what it has to be", block.pd);
            }
        }
    }
}

impl Memory for HostMemory {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, addr: u64, op: AtomicOp) -> Option<u64> {
        let id = self.find(addr, 8).expect("an atomic outside of all counters");
        assert_eq!(addr % 8, 0, "a misaligned atomic");
        let before = u64::from_ne_bytes(self.read(id).try_into().expect("a counter has 8 bytes"));
        let block = &self.blocks[id.block];
        let at = (addr - block.base) as usize;
        block.bytes.borrow_mut()[at..at + 8].copy_from_slice(&outcome(before, op).to_ne_bytes());
        self.atomics.borrow_mut().push(AtomicRecord { addr, op, before });
        Some(before)
    }
}

/// Returns the value after an atomic.
pub(crate) fn outcome(before: u64, op: AtomicOp) -> u64 {
    match op {
        AtomicOp::CompareSwap(o) if o.compare == before => o.swap_or_add,
        AtomicOp::CompareSwap(_) => before,
        AtomicOp::FetchAdd(o) => before.wrapping_add(o.swap_or_add),
    }
}

impl Block {
    fn new(base: u64, key: u32, pd: PdId) -> Self {
        let guard: Vec<u8> = (0..64).map(|i| background(base + i)).collect();
        Block {
            base,
            key,
            pd,
            bytes: RefCell::new(guard.clone()),
            shadow: guard,
            areas: Vec::new(),
        }
    }

    fn reserve(&mut self, len: u64, gap: u64, align: u64) -> usize {
        let used = self.areas.last().map_or(self.base, |area| area.addr + area.len);
        let addr = (used + gap).next_multiple_of(align);
        let end = addr + len + 64 - self.base;
        assert!(end <= REGION_LEN, "the scenario needs more memory than its region has");
        let bytes = self.bytes.get_mut();
        for offset in bytes.len() as u64..end {
            bytes.push(background(self.base + offset));
            self.shadow.push(background(self.base + offset));
        }
        self.areas.push(Area { addr, len, state: State::Planned, placed: 0 });
        self.areas.len() - 1
    }

    fn slice(&self, addr: u64, len: u64) -> Vec<u8> {
        let at = (addr - self.base) as usize;
        self.bytes.borrow()[at..at + len as usize].to_vec()
    }
}
