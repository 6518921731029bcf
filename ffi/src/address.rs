//! Addresses as text.

use std::ffi::c_char;
use std::net::{IpAddr, SocketAddr};

use crate::failure::Failure;

/// Maximum length of an address as text, with its NUL.
pub const BRAID_ADDR_LEN: usize = 64;

/// An empty address.
pub(crate) const NO_ADDRESS: [c_char; BRAID_ADDR_LEN] = [0; BRAID_ADDR_LEN];

/// Parses a local address, such as `10.0.0.1:4791` or `[::]:0`.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|error| malformed(text, error))
}

/// Parses a local address without a port.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, Failure> {
    text.parse().map_err(|error| malformed(text, error))
}

/// Resolves the address or name of a peer with its port. Returns the addresses that an engine at
/// `ours` can reach, or all if there are none.
pub(crate) fn resolve(text: &str, ours: IpAddr) -> Result<Vec<SocketAddr>, Failure> {
    let found = braid::resolve(text, 0).map_err(|error| malformed(text, error))?;
    if found.iter().any(|addr| addr.port() == 0) {
        return Err(malformed(text, "it has no port; write it as in `host:4791` or `[::1]:4791`"));
    }
    let fits = |addr: &&SocketAddr| match ours {
        IpAddr::V6(ip) => ip.is_unspecified() || addr.is_ipv6(),
        IpAddr::V4(_) => addr.is_ipv4(),
    };
    let fitting: Vec<SocketAddr> = found.iter().filter(fits).copied().collect();
    Ok(if fitting.is_empty() { found } else { fitting })
}

fn malformed(text: &str, why: impl ToString) -> Failure {
    Failure::Address { text: text.to_owned(), why: why.to_string() }
}

/// Writes an address as text for a C struct.
pub(crate) fn to_text(addr: impl ToString) -> [c_char; BRAID_ADDR_LEN] {
    let mut text = NO_ADDRESS;
    // The longest address, IPv6 with a scope and a port, has 58 characters. The last byte stays 0.
    let bytes = addr.to_string();
    for (to, from) in text[..BRAID_ADDR_LEN - 1].iter_mut().zip(bytes.bytes()) {
        *to = from as c_char;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_address_fits() {
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535";
        let text: String =
            to_text(parse(longest).unwrap()).iter().map(|c| *c as u8 as char).collect();
        assert_eq!(text.trim_end_matches('\0'), longest);
    }

    #[test]
    fn names_are_looked_up_for_peers_only() {
        let any: IpAddr = [127, 0, 0, 1].into();
        assert_eq!(resolve("127.0.0.1:9", any).unwrap(), [parse("127.0.0.1:9").unwrap()]);
        assert!(resolve("localhost:9", any).unwrap().iter().all(SocketAddr::is_ipv4));
        assert!(matches!(parse("localhost:9"), Err(Failure::Address { .. })));
        assert!(matches!(resolve("127.0.0.1", any), Err(Failure::Address { .. })));
    }
}
