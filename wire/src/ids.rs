//! Names of things, as types that cannot be mixed up.

use std::fmt;

/// A queue pair number: 24 bits, chosen by the side that owns the queue pair; 0 and 1 are reserved (IBTA).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QpId(u32);

impl QpId {
    /// Keeps the low 24 bits.
    pub const fn new(number: u32) -> Self {
        QpId(number & 0xFF_FFFF)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for QpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QP {:#x}", self.0)
    }
}

impl fmt::Display for QpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// How many paths a PathID can name.
pub const MAX_PATHS: usize = 1 << 12;
/// The UDP source port of path 0 (RoCEv2 recommends 0xC000-0xFFFF for its entropy, Annex A17.9.2).
pub const SOURCE_PORT_BASE: u16 = 0xC000;

/// A path to a destination group: 12 bits, low 6 the ToR egress, high 6 the aggregation egress
/// (PRO, section V). It travels as the UDP source port 0xC000 | PathID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PathId(u16);

impl PathId {
    /// Keeps the low 12 bits.
    pub const fn new(id: u16) -> Self {
        PathId(id & (MAX_PATHS as u16 - 1))
    }

    /// The number, below [`MAX_PATHS`].
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The UDP source port that names this path.
    pub const fn source_port(self) -> u16 {
        SOURCE_PORT_BASE | self.0
    }
}

/// A secret that one side of a connection hands the other at set-up; every later packet towards
/// that side carries it. It tells packets of this connection from stale and from blindly spoofed ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Token(pub u32);
