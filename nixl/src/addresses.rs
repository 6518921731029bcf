//! The addresses of this host, and the connection information that agents exchange.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// The first word of connection information. It ends with the version of the format.
const MAGIC: &str = "braid-nixl/1";
/// The largest number of addresses of an agent.
const MAX_ADDRESSES: usize = 16;
/// The first bytes of an attempt to connect.
const GREETING: &[u8; 8] = b"BrNixl01";

/// The name of an engine and the addresses at which it can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ConnInfo {
    /// A random number. An agent that is started again has another one.
    pub(crate) instance: u64,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl ConnInfo {
    /// Encodes the information: words with blanks between them.
    pub(crate) fn encode(&self) -> String {
        let addresses = self.addresses.iter().map(|addr| format!(" {addr}")).collect::<String>();
        format!("{MAGIC} {:016x}{addresses}", self.instance)
    }

    /// Decodes what a peer has sent. The error says what is wrong.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
        let mut words = text.split(' ');
        if words.next() != Some(MAGIC) {
            return Err("it does not begin with the version of this plugin's format");
        }
        let instance = words.next().filter(|word| word.len() == 16);
        let instance = instance.and_then(|word| u64::from_str_radix(word, 16).ok());
        let instance = instance.ok_or("it has no number of the engine")?;
        let addresses: Result<Vec<SocketAddr>, _> = words.map(str::parse).collect();
        let addresses = addresses.map_err(|_| "an address is invalid")?;
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            return Err("it has no address, or too many");
        }
        Ok(ConnInfo { instance, addresses })
    }

    /// The private data of an attempt to connect to this engine.
    pub(crate) fn greeting(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(GREETING);
        bytes[8..].copy_from_slice(&self.instance.to_be_bytes());
        bytes
    }
}

/// The addresses for an engine that receives at `bound`: that one, or all of this host if it is a
/// wildcard.
pub(crate) fn reachable_at(bound: SocketAddr) -> std::io::Result<Vec<SocketAddr>> {
    if !bound.ip().is_unspecified() {
        return Ok(vec![bound]);
    }
    let mut found: Vec<(bool, IpAddr)> = Vec::new();
    for (_, flags, ip) in interface_addresses()? {
        let is_down = !flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
        if is_down || is_link_local(ip) || (bound.is_ipv4() && ip.is_ipv6()) {
            continue;
        }
        found.push((flags.contains(InterfaceFlags::IFF_LOOPBACK), ip));
    }
    // Peers on other hosts would reach themselves.
    let has_network = found.iter().any(|(is_loopback, _)| !is_loopback);
    found.retain(|(is_loopback, _)| !(has_network && *is_loopback));
    let addresses = found.into_iter().map(|(_, ip)| SocketAddr::new(ip, bound.port()));
    Ok(addresses.take(MAX_ADDRESSES).collect())
}

/// The first address of each interface or address that a user has named.
pub(crate) fn named(names: &[String]) -> Result<Vec<IpAddr>, String> {
    let known = interface_addresses().map_err(|error| error.to_string())?;
    let find = |name: &String| {
        if let Ok(ip) = name.parse::<IpAddr>() {
            return known.iter().any(|(_, _, known)| *known == ip).then_some(ip);
        }
        let mut own =
            known.iter().filter(|(interface, _, ip)| interface == name && !is_link_local(*ip));
        // IPv4 first, as far as there is a choice.
        let first = own.clone().find(|(_, _, ip)| ip.is_ipv4()).or_else(|| own.next());
        first.map(|(_, _, ip)| *ip)
    };
    let missing = |name: &String| {
        let mut all: Vec<&str> = known.iter().map(|(interface, ..)| interface.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        format!("`{name}` is no interface or address of this host; there is: {}", all.join(", "))
    };
    names.iter().map(|name| find(name).ok_or_else(|| missing(name))).collect()
}

fn interface_addresses() -> std::io::Result<Vec<(String, InterfaceFlags, IpAddr)>> {
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let storage = interface.address?;
        let v4 = storage.as_sockaddr_in().map(|addr| IpAddr::V4(addr.ip()));
        let ip = v4.or_else(|| storage.as_sockaddr_in6().map(|addr| IpAddr::V6(addr.ip())))?;
        Some((interface.interface_name, interface.flags, ip))
    };
    Ok(getifaddrs()?.filter_map(address).collect())
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_information_survives_the_journey() {
        let addresses = vec!["10.0.0.1:4791".parse().unwrap(), "[fd00::1]:9".parse().unwrap()];
        let info = ConnInfo { instance: 0xAB, addresses };
        assert_eq!(info.encode(), "braid-nixl/1 00000000000000ab 10.0.0.1:4791 [fd00::1]:9");
        assert_eq!(ConnInfo::decode(info.encode().as_bytes()), Ok(info));
    }

    #[test]
    fn malformed_connection_information_is_refused() {
        let good = "braid-nixl/1 00000000000000ab 10.0.0.1:4791";
        let many = format!("{good}{}", " 10.0.0.1:4791".repeat(MAX_ADDRESSES));
        for text in [
            "",
            "braid-nixl/2 00000000000000ab 10.0.0.1:4791",
            "braid-nixl/1 ab 10.0.0.1:4791",
            "braid-nixl/1 00000000000000ag 10.0.0.1:4791",
            "braid-nixl/1 00000000000000ab",
            "braid-nixl/1 00000000000000ab 10.0.0.1",
            "braid-nixl/1 00000000000000ab 10.0.0.1:4791 ",
            &many,
        ] {
            assert!(ConnInfo::decode(text.as_bytes()).is_err(), "{text}");
        }
        assert!(ConnInfo::decode(&[0xFF, 0xFE]).is_err());
    }

    #[test]
    fn unknown_interfaces_are_named_beside_those_that_exist() {
        let error = named(&["no-such-0".to_owned()]).unwrap_err();
        assert!(error.contains("`no-such-0`") && error.contains("lo"), "{error}");
        assert_eq!(named(&["127.0.0.1".to_owned()]).unwrap().len(), 1);
    }
}
