//! Packet sequence numbers (PSNs): 24 bits on the wire (IBTA vol. 1, 9.2.1), 64 bits in memory.

use std::fmt;

/// Number of PSN bits on the wire.
pub const PSN_BITS: u32 = 24;
const MASK: u64 = (1 << PSN_BITS) - 1;
const HALF: u64 = 1 << (PSN_BITS - 1);

/// A packet sequence number that never wraps. It starts anywhere in 24 bits and counts up in 64.
///
/// The wire carries the low 24 bits. [`Psn::expand`] recovers the other bits from a PSN that lies
/// within 2^23 of the encoded one. Windows are far smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Psn(pub u64);

impl Psn {
    /// Returns the low 24 bits, which the wire carries.
    pub const fn wire(self) -> u32 {
        (self.0 & MASK) as u32
    }

    /// Returns the PSN nearest to `near` whose low 24 bits are `wire`. Ignores the higher bits of
    /// `wire`.
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

    /// Returns the PSN of the `n`th packet after this one.
    pub const fn plus(self, n: u64) -> Psn {
        Psn(self.0 + n)
    }

    /// Returns the number of packets that `self` is ahead of `earlier`, or `None` if `self` is
    /// behind.
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
