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

/// How many paths a PathID can name on one rail.
pub const MAX_PATHS: usize = 1 << PATH_BITS;
/// How many rails a connection can have.
pub const MAX_RAILS: usize = 8;
/// The UDP source port of path 0 (RoCEv2 recommends 0xC000-0xFFFF for its entropy, Annex A17.9.2).
pub const SOURCE_PORT_BASE: u16 = 0xC000;

const PATH_BITS: u32 = 12;
const NUMBER: u16 = MAX_PATHS as u16 - 1;

/// A rail of a connection: a pair of NICs, one at each end, that packets go between. Below [`MAX_RAILS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RailId(u8);

impl RailId {
    /// The one over which connections are set up.
    pub const FIRST: RailId = RailId(0);

    /// Keeps the low 3 bits.
    pub const fn new(id: usize) -> Self {
        RailId((id % MAX_RAILS) as u8)
    }

    /// The number, below [`MAX_RAILS`].
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize % MAX_RAILS // it is, and whoever indexes with it need not check
    }
}

impl fmt::Display for RailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A path to a destination group: its number on its rail, 12 bits, low 6 the ToR egress, high 6 the aggregation egress
/// (PRO, section V), and that rail. The number travels as the UDP source port 0xC000 | PathID; the rail is known by the
/// addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PathId(u16);

impl PathId {
    /// A path of the first rail. Keeps the low 12 bits.
    pub const fn new(id: u16) -> Self {
        PathId(id & NUMBER)
    }

    /// The path of the same number on this rail.
    #[inline]
    pub const fn on(self, rail: RailId) -> Self {
        PathId(self.get() | (rail.0 as u16) << PATH_BITS)
    }

    /// Its rail.
    #[inline]
    pub const fn rail(self) -> RailId {
        RailId((self.0 >> PATH_BITS) as u8)
    }

    /// The number on its rail, below [`MAX_PATHS`].
    #[inline]
    pub const fn get(self) -> u16 {
        self.0 & NUMBER
    }

    /// As it stands in an ACK: the number in the low 12 bits, the rail in the three above.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The inverse of [`PathId::to_bits`]. Keeps the low 15 bits.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        PathId(bits & (MAX_RAILS as u16 * MAX_PATHS as u16 - 1))
    }

    /// The UDP source port that names this path.
    pub const fn source_port(self) -> u16 {
        SOURCE_PORT_BASE | self.get()
    }
}

/// A secret that one side of a connection hands the other at set-up; every later packet towards
/// that side carries it. It tells packets of this connection from stale and from blindly spoofed ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Token(pub u32);
