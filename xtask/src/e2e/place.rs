//! The network of a server and its client.

use braid_lab::Namespace;

use crate::Failure;

/// The server's addresses.
pub(super) const SERVER_V4: &str = "10.77.0.1";
pub(super) const SERVER_V6: &str = "fd77::1";
/// The client's address.
pub(super) const CLIENT_V4: &str = "10.77.0.2";
/// The server's link-local address as the client calls it, whose device has the same name.
pub(super) const SERVER_LINK_LOCAL: &str = "fe80::77:1%braid0";
/// The name of the namespaces. A process has one network at a time.
const NAME: &str = "e2e";

/// A network with a server and a client on it.
pub(super) trait Place {
    /// The namespaces of the server and of the client.
    fn ends(&self) -> [&Namespace; 2];

    /// The arguments that only the server and only the client get.
    fn arguments(&self) -> [Vec<String>; 2] {
        Default::default()
    }

    /// The name of the network in messages.
    fn name(&self) -> String;
}

/// Makes the namespaces of a network.
pub(super) fn namespaces<const N: usize>() -> Result<[Namespace; N], Failure> {
    Ok(Namespace::up(NAME)?)
}

/// Two namespaces, joined by a veth pair.
pub(super) struct Pair {
    ends: [Namespace; 2],
    mtu: u32,
}

impl Pair {
    /// Makes the namespaces and a veth pair of this MTU between them.
    pub(super) fn new(mtu: u32) -> Result<Self, Failure> {
        let pair = Self { ends: namespaces()?, mtu };
        let [server, client] = &pair.ends;
        // The first link shows whether a link-local address is looked up on its own link.
        server.join(client, "other0", mtu)?;
        pair.ends.iter().try_for_each(|end| end.set_up("other0", &[]))?;
        server.join(client, "braid0", mtu)?;
        for (end, addresses) in [
            (server, [SERVER_V4, SERVER_V6, "fe80::77:1"]),
            (client, [CLIENT_V4, "fd77::2", "fe80::77:2"]),
        ] {
            end.set_up("braid0", &prefixed(&addresses))?;
        }
        Ok(pair)
    }
}

impl Place for Pair {
    fn ends(&self) -> [&Namespace; 2] {
        self.ends.each_ref()
    }

    fn name(&self) -> String {
        format!("veth, MTU {}", self.mtu)
    }
}

/// Addresses with the usual length of their prefix.
pub(super) fn prefixed(addresses: &[&str]) -> Vec<String> {
    let length = |address: &str| if address.contains(':') { 64 } else { 24 };
    addresses.iter().map(|address| format!("{address}/{}", length(address))).collect()
}
