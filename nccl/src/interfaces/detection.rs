//! Duplicate address detection (RFC 4862, section 5.4): an address cannot be bound until it has
//! finished.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::Ipv6Addr;

// Flags of `linux/if_addr.h`.
const OPTIMISTIC: u32 = 0x04;
const FAILED: u32 = 0x08;
const TENTATIVE: u32 = 0x40;

/// The reason why an address cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detection {
    /// The kernel is still checking whether another host has the address.
    Tentative,
    /// Another host has the address.
    Duplicate,
}

/// The IPv6 addresses that cannot be used, by interface name.
pub(super) type Unusable = HashMap<(String, Ipv6Addr), Detection>;

/// Reads the addresses of this network namespace.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn unusable() -> io::Result<Unusable> {
    match fs::read_to_string("/proc/thread-self/net/if_inet6") {
        Ok(table) => Ok(parse(&table)),
        // The kernel has no IPv6.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Unusable::new()),
        Err(error) => Err(error),
    }
}

/// Parses a line: the address, the interface index, the prefix length, the scope and the flags in
/// hexadecimal, and the interface name.
fn parse(table: &str) -> Unusable {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [addr, _, _, _, flags, name] = fields[..] else { return None };
        let ip = Ipv6Addr::from(u128::from_str_radix(addr, 16).ok()?);
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let detection = if flags & FAILED != 0 {
            Detection::Duplicate
        } else if flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0 {
            Detection::Tentative
        } else {
            return None;
        };
        Some(((name.to_owned(), ip), detection))
    };
    table.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_what_cannot_be_used() {
        let table = "\
00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000000fc00fffe000001 04 40 20 40     eth0
fd000000000000000000000000000002 04 40 00 82     eth0
fd000000000000000000000000000003 04 40 00 c8     eth0
fd000000000000000000000000000004 04 40 00 44     eth0
fd00 nonsense
";
        let of = |ip: &str| parse(table).get(&("eth0".to_owned(), ip.parse().unwrap())).copied();
        assert_eq!(of("fe80::fc:ff:fe00:1"), Some(Detection::Tentative));
        assert_eq!(of("fd00::3"), Some(Detection::Duplicate));
        assert_eq!([of("fd00::2"), of("fd00::4")], [None, None]);
        assert_eq!(parse(table).len(), 2);
    }
}
