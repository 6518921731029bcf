//! Hosts with several interfaces: the choice of interfaces at both ends of a queue pair.

use braid_lb::RailId;

use crate::topology::Topology;

/// The interfaces of its two hosts that a queue pair uses. Each of the sender's is a rail. A queue
/// pair within a host uses the interfaces that its messages name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DataPath {
    /// The interfaces that the message names, at both ends.
    #[default]
    Own,
    /// All interfaces of the sending host, and at the receiver the one that the message names.
    AnySender,
    /// All interfaces of both hosts: rail r of one leads to rail r of the other.
    Aligned,
}

/// The interfaces of an end and of its peer, by rail. Most ends have one rail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interfaces {
    first: (u32, u32),
    further: Option<Box<[(u32, u32)]>>,
}

impl Interfaces {
    /// Returns the interfaces of the sending end, for a message from interface `src` to `dst`.
    pub(crate) fn of_sender(data_path: DataPath, topology: &Topology, src: u32, dst: u32) -> Self {
        let all = |nic: u32| {
            let host = topology.nics[nic as usize].host;
            (0..).zip(&topology.nics).filter(move |(_, spec)| spec.host == host).map(|(nic, _)| nic)
        };
        let stays = topology.nics[src as usize].host == topology.nics[dst as usize].host;
        // A rail between the interfaces of one host would lead to itself.
        let data_path = if stays { DataPath::Own } else { data_path };
        match data_path {
            DataPath::Own => Interfaces::new([(src, dst)]),
            DataPath::AnySender => Interfaces::new(all(src).map(|nic| (nic, dst))),
            DataPath::Aligned => Interfaces::new(all(src).zip(all(dst))),
        }
    }

    fn new(by_rail: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut by_rail = by_rail.into_iter();
        let first = by_rail.next().expect("every host has an interface");
        let further: Box<[(u32, u32)]> = by_rail.collect();
        Interfaces { first, further: Some(further).filter(|further| !further.is_empty()) }
    }

    /// Returns the same interfaces as the other end sees them.
    pub(crate) fn reversed(&self) -> Self {
        Interfaces::new(self.all().map(|(own, far)| (far, own)))
    }

    /// Returns the number of rails.
    pub(crate) fn count(&self) -> usize {
        1 + self.further.as_ref().map_or(0, |further| further.len())
    }

    /// Returns the interface of a rail at this end and at the other.
    pub(crate) fn of(&self, rail: RailId) -> (u32, u32) {
        match rail.get() {
            0 => self.first,
            rail => self.further.as_ref().expect("a path is on a rail of its end")[rail - 1],
        }
    }

    /// Iterates over the rails with their interfaces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RailId, (u32, u32))> + '_ {
        self.all().enumerate().map(|(rail, pair)| (RailId::new(rail), pair))
    }

    fn all(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        std::iter::once(self.first).chain(self.further.iter().flatten().copied())
    }

    /// Returns the rail that leaves by this interface.
    pub(crate) fn rail_of(&self, nic: u32) -> RailId {
        let found = self.all().position(|(own, _)| own == nic);
        RailId::new(found.expect("an end waits at its own interfaces only"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::RailOptimised;

    #[test]
    fn rails_lead_where_the_data_path_says() {
        let topology = RailOptimised::three_hosts(2);
        let of =
            |data_path| Interfaces::of_sender(data_path, &topology, 1, 4).all().collect::<Vec<_>>();
        assert_eq!(of(DataPath::Own), [(1, 4)]);
        assert_eq!(of(DataPath::AnySender), [(0, 4), (1, 4)]);
        assert_eq!(of(DataPath::Aligned), [(0, 4), (1, 5)]);
        let within = Interfaces::of_sender(DataPath::Aligned, &topology, 4, 5);
        assert_eq!(within.all().collect::<Vec<_>>(), [(4, 5)], "no rail leads to itself");
        let aligned = Interfaces::of_sender(DataPath::Aligned, &topology, 1, 4);
        assert_eq!(aligned.rail_of(1), RailId::new(1));
        assert_eq!(aligned.reversed().of(RailId::new(1)), (5, 1));
    }
}
