//! Names of values and tables of rates: plain functions of `infiniband/verbs.h`.

use std::ffi::{CStr, c_char, c_int};

/// `enum ibv_wc_status`, from 0.
const STATUSES: [&CStr; 23] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory window bind error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"remote aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
];

/// `enum ibv_event_type`, from 0.
const EVENTS: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

/// `enum ibv_port_state`, from 0.
const PORT_STATES: [&CStr; 6] =
    [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

/// `enum ibv_node_type`, from 1.
const NODE_TYPES: [&CStr; 7] = [
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// `enum ibv_wr_opcode`, from 0.
const OPERATIONS: [&CStr; 16] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
    c"unknown",
    c"unknown",
    c"flush",
    c"atomic-write",
];

fn name(names: &[&'static CStr], value: c_int) -> *const c_char {
    let known = usize::try_from(value).ok().and_then(|value| names.get(value));
    known.copied().unwrap_or(c"unknown").as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    name(&STATUSES, status)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    name(&EVENTS, event)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    name(&PORT_STATES, state)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(kind: c_int) -> *const c_char {
    name(&NODE_TYPES, kind.wrapping_sub(1))
}

/// The name of an operation, for [the providers](crate::providers).
pub(crate) fn operation(opcode: c_int) -> *const c_char {
    name(&OPERATIONS, opcode)
}

/// `enum ibv_rate`, multiples of 2.5 Gbit/s (0: the rate is no multiple) and Mbit/s (IBTA vol. 1,
/// 9.11.1).
const RATES: [(c_int, c_int, c_int); 22] = [
    (2, 1, 2500),
    (3, 4, 10_000),
    (4, 12, 30_000),
    (5, 2, 5000),
    (6, 8, 20_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 0, 14_062),
    (12, 0, 56_250),
    (13, 0, 112_500),
    (14, 0, 168_750),
    (15, 0, 25_781),
    (16, 0, 103_125),
    (17, 0, 206_250),
    (18, 0, 309_375),
    (19, 0, 28_125),
    (20, 0, 50_000),
    (21, 0, 400_000),
    (22, 0, 600_000),
    (23, 0, 800_000),
];

/// The first rate of the table that `wanted` accepts. If there is none, 0: the greatest possible
/// rate.
fn rate(wanted: impl Fn(&(c_int, c_int, c_int)) -> bool) -> c_int {
    RATES.iter().find(|row| wanted(row)).map_or(0, |(rate, ..)| *rate)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(wanted: c_int) -> c_int {
    let row = RATES.iter().find(|(rate, multiple, _)| *rate == wanted && *multiple > 0);
    row.map_or(-1, |(_, multiple, _)| *multiple)
}

#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(wanted: c_int) -> c_int {
    rate(|(_, multiple, _)| wanted > 0 && *multiple == wanted)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(wanted: c_int) -> c_int {
    RATES.iter().find(|(rate, ..)| *rate == wanted).map_or(-1, |(_, _, mbps)| *mbps)
}

#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(wanted: c_int) -> c_int {
    rate(|(_, _, mbps)| *mbps == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: *const c_char) -> &'static str {
        // SAFETY: the names are constants.
        unsafe { CStr::from_ptr(name) }.to_str().expect("it is ASCII")
    }

    #[test]
    fn known_values_have_names_and_others_are_unknown() {
        assert_eq!(text(ibv_wc_status_str(12)), "transport retry counter exceeded");
        assert_eq!(text(ibv_event_type_str(15)), "SRQ limit reached");
        assert_eq!(text(ibv_port_state_str(4)), "active");
        assert_eq!(text(ibv_node_type_str(1)), "InfiniBand channel adapter");
        assert_eq!(text(operation(15)), "atomic-write");
        for unknown in [-1, 1000, c_int::MAX, c_int::MIN] {
            assert_eq!(text(ibv_wc_status_str(unknown)), "unknown");
            assert_eq!(text(ibv_node_type_str(unknown)), "unknown");
        }
    }

    #[test]
    fn rates_come_back() {
        for (rate, multiple, mbps) in RATES {
            assert_eq!((ibv_rate_to_mbps(rate), mbps_to_ibv_rate(mbps)), (mbps, rate));
            if multiple > 0 {
                assert_eq!((ibv_rate_to_mult(rate), mult_to_ibv_rate(multiple)), (multiple, rate));
            }
        }
        assert_eq!((ibv_rate_to_mult(99), ibv_rate_to_mbps(99), mult_to_ibv_rate(0)), (-1, -1, 0));
    }
}
