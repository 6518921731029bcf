//! Identifiers as distinct types.

use std::fmt;

/// A queue pair number: 24 bits, chosen by the owner of the queue pair. IBTA reserves 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QpId(u32);

impl QpId {
    /// Creates a number from the low 24 bits.
    pub const fn new(number: u32) -> Self {
        QpId(number & 0xFF_FFFF)
    }

    /// Returns the number.
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

/// Maximum number of paths per rail.
pub const MAX_PATHS: usize = 1 << PATH_BITS;
/// Maximum number of rails per connection.
pub const MAX_RAILS: usize = 8;
/// The UDP source port of path 0. RoCEv2 recommends 0xC000-0xFFFF for entropy (Annex A17.9.2).
pub const SOURCE_PORT_BASE: u16 = 0xC000;

const PATH_BITS: u32 = 12;
const NUMBER: u16 = MAX_PATHS as u16 - 1;

/// A rail of a connection: a pair of NICs, one at each end, that exchange packets. Below
/// [`MAX_RAILS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RailId(u8);

impl RailId {
    /// The rail on which connections are set up.
    pub const FIRST: RailId = RailId(0);

    /// Creates an id from the low 3 bits.
    pub const fn new(id: usize) -> Self {
        RailId((id % MAX_RAILS) as u8)
    }

    /// Returns the number, below [`MAX_RAILS`].
    #[inline]
    pub const fn get(self) -> usize {
        // The modulo lets the compiler omit bounds checks.
        self.0 as usize % MAX_RAILS
    }
}

impl fmt::Display for RailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A path to a destination group: a 12-bit number and the rail.
///
/// The low 6 bits of the number select the egress port of the ToR switch, the high 6 bits the
/// egress port of the aggregation switch (PRO, section V). The number travels as the UDP source
/// port 0xC000 | PathID. The addresses identify the rail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PathId(u16);

impl PathId {
    /// Creates a path of the first rail from the low 12 bits.
    pub const fn new(id: u16) -> Self {
        PathId(id & NUMBER)
    }

    /// Returns the path with the same number on `rail`.
    #[inline]
    pub const fn on(self, rail: RailId) -> Self {
        PathId(self.get() | (rail.0 as u16) << PATH_BITS)
    }

    /// Returns the rail.
    #[inline]
    pub const fn rail(self) -> RailId {
        RailId((self.0 >> PATH_BITS) as u8)
    }

    /// Returns the number on the rail, below [`MAX_PATHS`].
    #[inline]
    pub const fn get(self) -> u16 {
        self.0 & NUMBER
    }

    /// Returns the encoding in an ACK: the number in the low 12 bits, the rail in the next three.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Inverts [`PathId::to_bits`] from the low 15 bits.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        PathId(bits & (MAX_RAILS as u16 * MAX_PATHS as u16 - 1))
    }

    /// Returns the UDP source port of this path.
    pub const fn source_port(self) -> u16 {
        SOURCE_PORT_BASE | self.get()
    }
}

/// A secret that one side of a connection sends to the other at set-up.
///
/// Every later packet towards that side carries the token, which distinguishes packets of this
/// connection from stale and from blindly spoofed ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Token(pub u32);
