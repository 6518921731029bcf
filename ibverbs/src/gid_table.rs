//! The GID table of a device: its addresses, at most one of each IP version.
//!
//! The IP version of a destination decides which entry leads there, so a program that names the
//! other entry has made a mistake. Packets leave from the address of the destination's version
//! ([`braid::EngineConfig::second_addr`]).

use std::net::IpAddr;

use braid_verbs::abi::{ibv_gid, ibv_global_route};

use crate::errno::Errno;
use crate::gid;

/// The entries, by index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GidTable {
    first: IpAddr,
    second: Option<IpAddr>,
}

impl GidTable {
    /// Makes a table. `second` has the other IP version than `first`.
    pub(crate) fn new(first: IpAddr, second: Option<IpAddr>) -> Self {
        GidTable { first, second }
    }

    pub(crate) fn len(&self) -> usize {
        self.all().count()
    }

    fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.first).chain(self.second)
    }

    /// All entries, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = ibv_gid> {
        self.addrs().map(gid::of)
    }

    pub(crate) fn get(&self, index: usize) -> Option<ibv_gid> {
        self.all().nth(index)
    }

    pub(crate) fn index_of(&self, wanted: &ibv_gid) -> Option<usize> {
        let wanted = gid::address(wanted)?;
        self.addrs().position(|addr| addr == wanted)
    }

    /// The index of the entry that leads to a destination.
    pub(crate) fn towards(&self, destination: &ibv_gid) -> Option<usize> {
        let to = gid::address(destination)?;
        self.addrs().position(|addr| addr.is_ipv4() == to.is_ipv4())
    }

    /// The source GID of packets that take this route.
    ///
    /// # Errors
    /// `EINVAL`: the destination is no address of a host, or the entry of this index does not lead
    /// there.
    pub(crate) fn source(&self, route: &ibv_global_route) -> Result<ibv_gid, Errno> {
        let index = usize::from(route.sgid_index);
        let leads = self.towards(&route.dgid) == Some(index);
        self.get(index).filter(|_| leads).ok_or(Errno::INVALID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_entry_leads_to_destinations_of_its_version_alone() {
        let both = GidTable::new(addr("10.0.0.1"), Some(addr("fd00::1")));
        let alone = GidTable::new(addr("fd00::1"), None);
        assert_eq!((both.len(), alone.len()), (2, 1));
        let source = |table: &GidTable, sgid_index, to: &str| {
            // SAFETY: the structure consists of numbers, so zero is valid.
            let mut route: ibv_global_route = unsafe { std::mem::zeroed() };
            (route.sgid_index, route.dgid) = (sgid_index, gid::of(addr(to)));
            table.source(&route).map(|gid| gid::address(&gid))
        };
        assert_eq!(source(&both, 0, "10.0.0.2"), Ok(Some(addr("10.0.0.1"))));
        assert_eq!(source(&both, 1, "fd00::2"), Ok(Some(addr("fd00::1"))));
        assert_eq!(source(&alone, 0, "fd00::2"), Ok(Some(addr("fd00::1"))));
        let wrong = [(0, "fd00::2"), (1, "10.0.0.2"), (2, "10.0.0.2"), (1, "ff02::1")];
        for (index, to) in wrong {
            assert_eq!(source(&both, index, to), Err(Errno::INVALID), "{index} {to}");
        }
        assert_eq!(source(&alone, 0, "10.0.0.2"), Err(Errno::INVALID));
    }

    #[test]
    fn paths_lead_to_entries_of_the_right_kind() {
        let table = GidTable::new(addr("10.0.0.1"), Some(addr("fd00::1")));
        for index in 0..table.len() {
            let entry = table.get(index).expect("it is there");
            assert_eq!(table.index_of(&entry), Some(index));
        }
        assert!(table.get(2).is_none() && table.index_of(&gid::of(addr("fd00::2"))).is_none());
    }
}
