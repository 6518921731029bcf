//! NCCL's own variables about interfaces.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};

use braid::environment;

/// Selects interfaces, unless `BRAID_IFNAME` does.
pub(super) const INTERFACES: &str = "NCCL_SOCKET_IFNAME";
const FAMILY: &str = "NCCL_SOCKET_FAMILY";
const COMM_ID: &str = "NCCL_COMM_ID";

/// The IP version of the addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Returns whether an address has this version.
    pub(crate) fn has(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == (self == Family::V4)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Family::V4 { "AF_INET" } else { "AF_INET6" })
    }
}

/// The variables of NCCL that the plugin obeys, as NCCL's own sockets do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NcclHints {
    /// `NCCL_SOCKET_FAMILY`.
    pub(crate) family: Option<Family>,
    /// The address in `NCCL_COMM_ID`, at which the ranks meet.
    pub(crate) root: Option<IpAddr>,
}

impl NcclHints {
    pub(super) fn from_environment() -> Self {
        NcclHints {
            family: given(FAMILY).and_then(|value| family(&value)),
            root: given(COMM_ID).and_then(|value| root(&value)),
        }
    }
}

/// Returns the value of a variable. NCCL ignores values of less than two characters.
pub(super) fn given(variable: &str) -> Option<String> {
    let value = environment::variable(variable)?.to_string_lossy().trim().to_owned();
    (value.len() > 1).then_some(value)
}

/// Parses the family. NCCL ignores other words, so they are not errors here either.
fn family(value: &str) -> Option<Family> {
    match value {
        "AF_INET" => Some(Family::V4),
        "AF_INET6" => Some(Family::V6),
        _ => {
            tracing::warn!("{FAMILY} is `{value}` and has no effect; accepted: AF_INET, AF_INET6");
            None
        }
    }
}

fn root(value: &str) -> Option<IpAddr> {
    match value.to_socket_addrs() {
        Ok(mut addrs) => addrs.next().map(|addr| addr.ip()),
        Err(error) => {
            tracing::warn!("{COMM_ID} is `{value}`, which is no ADDRESS:PORT: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_by_nccl() {
        assert_eq!([family("AF_INET"), family("AF_INET6")], [Some(Family::V4), Some(Family::V6)]);
        assert_eq!(family("ipv4"), None);
        assert!(Family::V4.has("10.0.0.1".parse().unwrap()));
        assert!(!Family::V4.has("fd00::1".parse().unwrap()));
        assert_eq!(root("10.0.0.1:77"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(root("[fd00::1]:77"), Some("fd00::1".parse().unwrap()));
        assert_eq!(root("nonsense"), None);
    }
}
