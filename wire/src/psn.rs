//! Packet sequence numbers: 24 bits on the wire (IBTA vol. 1, 9.2.1), 64 bits inside.

use std::fmt;

/// How many bits of a sequence number travel.
pub const PSN_BITS: u32 = 24;
const MASK: u64 = (1 << PSN_BITS) - 1;
const HALF: u64 = 1 << (PSN_BITS - 1);

/// A packet sequence number that never wraps: it starts anywhere in 24 bits and counts up in 64.
///
/// The wire carries the low 24 bits; [`Psn::expand`] recovers the rest from a number that is known
/// to lie within 2^23 of it. Windows are far smaller than that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Psn(pub u64);

impl Psn {
    /// The 24 bits that travel.
    pub const fn wire(self) -> u32 {
        (self.0 & MASK) as u32
    }

    /// The number nearest to `near` whose low 24 bits are `wire` (higher bits of `wire` are ignored).
    pub const fn expand(wire: u32, near: Psn) -> Psn {
        let wire = wire as u64 & MASK;
        let base = near.0 & !MASK;
        let candidate = base | wire;
        if candidate + HALF < near.0 {
            Psn(candidate + MASK + 1)
        } else if candidate > near.0 + HALF && candidate > MASK {
            Psn(candidate - MASK - 1)
        } else {
            Psn(candidate)
        }
    }

    /// The number `n` packets later.
    pub const fn plus(self, n: u64) -> Psn {
        Psn(self.0 + n)
    }

    /// How many packets `self` is ahead of `earlier`; `None` if it is behind.
    pub const fn ahead_of(self, earlier: Psn) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PSN {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expands_across_the_wrap_in_both_directions() {
        let near = Psn((1 << 24) - 2);
        assert_eq!(Psn::expand(1, near), Psn((1 << 24) + 1));
        assert_eq!(Psn::expand(0xFF_FFFF, Psn((1 << 24) + 3)), Psn((1 << 24) - 1));
    }

    proptest! {
        #[test]
        fn expand_inverts_wire(base in (1u64 << 24)..(1 << 40), delta in -(1i64 << 22)..(1i64 << 22)) {
            let psn = Psn(base.wrapping_add_signed(delta));
            prop_assert_eq!(Psn::expand(psn.wire(), Psn(base)), psn);
        }

        #[test]
        fn expand_never_overflows(wire: u32, near in 0u64..(u64::MAX >> 1)) {
            let _ = Psn::expand(wire, Psn(near));
        }
    }
}
