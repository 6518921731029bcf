//! The traffic class of a communicator, from NCCL's configuration.

use std::ffi::c_int;

use braid::QueuePair;

/// A traffic class, as `IP_TOS`: the upper six bits are the DSCP (RFC 2474). Default: 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TrafficClass(u8);

impl TrafficClass {
    /// Returns the class for NCCL's number, which is negative if nothing is configured. `None`: it
    /// is not one byte.
    pub(crate) fn of_config(number: c_int) -> Option<Self> {
        u8::try_from(number.max(0)).ok().map(TrafficClass)
    }

    /// Sets the class of a queue pair that is not connected yet.
    pub(crate) fn apply(self, qp: &QueuePair) {
        qp.set_traffic_class(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_one_byte_or_not_configured() {
        for (number, class) in [(-1, Some(0)), (c_int::MIN, Some(0)), (0xB8, Some(0xB8))] {
            assert_eq!(TrafficClass::of_config(number), class.map(TrafficClass));
        }
        assert_eq!(TrafficClass::of_config(256), None);
    }
}
