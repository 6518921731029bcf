//! Duplicate address detection (RFC 4862, section 5.4): until it is over, an address cannot be
//! bound to.

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
    /// The kernel is looking whether another host has it.
    Tentative,
    /// Another host has it.
    Duplicate,
}

/// The IPv6 addresses that cannot be used, by the names of their interfaces.
pub(super) type Unusable = HashMap<(String, Ipv6Addr), Detection>;

/// Those of this network namespace.
///
/// # Errors
/// The file cannot be read.
pub(super) fn unusable() -> io::Result<Unusable> {
    match fs::read_to_string("/proc/thread-self/net/if_inet6") {
        Ok(table) => Ok(parse(&table)),
        // The kernel has no IPv6.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Unusable::new()),
        Err(error) => Err(error),
    }
}

/// A line has the address, the number of the interface, the length of the prefix, the scope and the
/// flags, hexadecimal, and the name of the interface.
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
