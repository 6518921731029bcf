//! Shortest routes: for each switch and destination, the ports that lead nearer to it.

use std::collections::{HashMap, VecDeque};

use super::equal_cost::Uplinks;
use super::{Node, PortId, Topology};
use crate::prefetch;

/// All equal-cost next hops: for each switch and destination edge, a group of ports. Every packet
/// looks up a group at every switch, so a lookup is a few reads. The table that grows with the
/// square of the fabric has two bytes per entry, so that it stays in the cache.
///
/// If failures leave unequal numbers of shortest routes behind the ports, a port is listed once per
/// route, reduced by the common divisor and interleaved with the others. This is weighted multipath
/// (W-ECMP) in the form of an interleaved weighted round robin (OFAN, appendix F.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    /// By interface: its edge switch, and the port down to it in `ports`.
    nics: Vec<(u32, Group)>,
    /// By switch, then by edge switch: the index of the group within the switch.
    towards: Vec<u16>,
    /// By switch: the index of its first group in `groups`.
    switches: Vec<u32>,
    /// The groups of each switch. Destinations with the same ports share a group.
    groups: Vec<Group>,
    /// Number of switches that may have hosts below them. No edge switch has a higher number.
    edges: u32,
    /// The ports of all groups.
    ports: Vec<PortId>,
}

/// A range of `ports`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Group {
    first: u32,
    count: u32,
}

impl Routes {
    /// Computes the routes over cables for which `works` is true.
    pub fn new(topology: &Topology, works: impl Fn(PortId) -> bool) -> Routes {
        let switches = topology.switches.len();
        let edges = topology.nics.iter().map(|nic| nic.edge + 1).max().unwrap_or(0);
        let mut out = vec![Vec::new(); switches];
        let mut ports = Vec::new();
        let mut nics: Vec<(u32, Group)> =
            topology.nics.iter().map(|nic| (nic.edge, Group::default())).collect();
        for port in topology.ports().filter(|port| works(*port)) {
            match topology.ends(port) {
                (Node::Switch(from), Node::Switch(to)) => out[from as usize].push((to, port)),
                (Node::Switch(_), Node::Nic(nic)) => {
                    nics[nic as usize].1 = Group { first: ports.len() as u32, count: 1 };
                    ports.push(port);
                }
                (Node::Nic(_), _) => {}
            }
        }
        let mut known: Vec<HashMap<Vec<PortId>, u16>> = vec![HashMap::new(); switches];
        let mut groups_of = vec![Vec::new(); switches];
        let mut towards = vec![0; switches * edges as usize];
        let back = reversed(&out);
        for edge in 0..edges {
            let (distance, counts) = shortest_routes(&back, edge);
            for (switch, known) in known.iter_mut().enumerate() {
                let nearer = |(to, _): &&(u32, PortId)| distance[*to as usize] < distance[switch];
                let group = out[switch].iter().filter(nearer);
                let group =
                    weighted(group.map(|(to, port)| (*port, counts[*to as usize])).collect());
                let (first, count) = (ports.len() as u32, group.len() as u32);
                let at = switch * edges as usize + edge as usize;
                towards[at] = *known.entry(group).or_insert_with_key(|group| {
                    ports.extend(group);
                    groups_of[switch].push(Group { first, count });
                    (groups_of[switch].len() - 1) as u16
                });
            }
        }
        let begin = groups_of.iter().scan(0, |next, groups| {
            let begin = *next;
            *next += groups.len() as u32;
            Some(begin)
        });
        Routes {
            nics,
            towards,
            switches: begin.collect(),
            groups: groups_of.concat(),
            edges,
            ports,
        }
    }

    /// Returns whether a numbered route leads from one interface to another: each uplink that it
    /// names is on a shortest route. `uplinks`: those of each switch.
    pub fn has(
        &self,
        topology: &Topology,
        uplinks: &[Uplinks],
        (src, dst): (u32, u32),
        route: u32,
    ) -> bool {
        let mut switch = topology.nics[src as usize].edge;
        loop {
            let ports = self.towards(switch, dst);
            let next = match ports.first() {
                None => return false,
                Some(port) if !port.is_up() => *port,
                Some(_) => match uplinks[switch as usize].of_route(route) {
                    Some(named) if ports.contains(&named) => named,
                    _ => return false,
                },
            };
            match topology.ends(next).1 {
                Node::Nic(_) => return true,
                Node::Switch(next) => switch = next,
            }
        }
    }

    /// Requests the entries for [`Routes::towards`].
    #[inline(always)]
    pub(crate) fn expect(&self, switch: u32, nic: u32) {
        let (edge, _) = self.nics[nic as usize];
        prefetch::element(&self.towards, (switch * self.edges + edge) as usize);
    }

    /// Returns the ports of a switch that lead to an interface; empty if there is no route.
    #[inline(always)]
    pub fn towards(&self, switch: u32, nic: u32) -> &[PortId] {
        let (edge, down) = self.nics[nic as usize];
        let Group { first, count } = match edge == switch {
            true => down,
            false => {
                let group = self.towards[(switch * self.edges + edge) as usize];
                self.groups[self.switches[switch as usize] as usize + usize::from(group)]
            }
        };
        &self.ports[first as usize..(first + count) as usize]
    }
}

/// Returns the switches with a link to each switch.
fn reversed(out: &[Vec<(u32, PortId)>]) -> Vec<Vec<u32>> {
    let mut back = vec![Vec::new(); out.len()];
    for (from, ports) in (0_u32..).zip(out) {
        ports.iter().for_each(|(to, _)| back[*to as usize].push(from));
    }
    back
}

/// Returns the ports as an interleaved schedule. Each round has the ports whose weight is not used
/// up.
fn weighted(ports: Vec<(PortId, u64)>) -> Vec<PortId> {
    let common = ports.iter().fold(0, |common, (_, weight)| gcd(common, *weight)).max(1);
    let rounds = ports.iter().map(|(_, weight)| weight / common).max().unwrap_or(0);
    let round = |round| ports.iter().filter(move |(_, weight)| weight / common > round);
    (0..rounds).flat_map(round).map(|(port, _)| *port).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the hops of a shortest route from every switch to one of them, and the number of such
/// routes.
fn shortest_routes(back: &[Vec<u32>], to: u32) -> (Vec<u32>, Vec<u64>) {
    let (mut distance, mut counts) = (vec![u32::MAX; back.len()], vec![0_u64; back.len()]);
    (distance[to as usize], counts[to as usize]) = (0, 1);
    let mut queue = VecDeque::from([to]);
    while let Some(switch) = queue.pop_front() {
        for from in &back[switch as usize] {
            let farther = distance[switch as usize] + 1;
            if distance[*from as usize] == u32::MAX {
                distance[*from as usize] = farther;
                queue.push_back(*from);
            }
            if distance[*from as usize] == farther {
                counts[*from as usize] =
                    counts[*from as usize].saturating_add(counts[switch as usize]);
            }
        }
    }
    (distance, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Ps, Rate};
    use crate::topology::FatTree;

    /// In a fat tree of 128 hosts, the first agg of pod 0 loses two of its four cables to cores.
    /// Its edges have 14 routes to another pod: two lead over it and four over each of the others.
    #[test]
    fn ports_are_listed_by_the_routes_behind_them() {
        let plan = FatTree::k_ary(8, Rate::from_gbps(800), Ps::ZERO).unwrap();
        let topology = plan.build().unwrap();
        let up = |switch| -> Vec<PortId> { topology.uplinks(switch).collect() };
        let lost = &up(32)[..2];
        let routes = Routes::new(&topology, |port| !lost.iter().any(|l| l.cable() == port.cable()));
        let [a, b, c, d] = up(0)[..] else { panic!("four uplinks") };
        assert_eq!(routes.towards(0, 127), [a, b, c, d, b, c, d]);
        assert_eq!(routes.towards(0, 4), [a, b, c, d], "within the pod all are equal");
        assert_eq!(routes.towards(32, 127), &up(32)[2..]);
        // The same weights hold on the route back into pod 0.
        let [a, b, c, d] = up(31)[..] else { panic!("four uplinks") };
        assert_eq!(routes.towards(31, 0), [a, b, c, d, b, c, d]);
    }

    /// Route r between pods takes agg r mod 4 and its uplink r / 4.
    #[test]
    fn a_numbered_route_works_if_all_its_links_do() {
        let plan = FatTree::k_ary(8, Rate::from_gbps(800), Ps::ZERO).unwrap();
        let topology = plan.build().unwrap();
        let uplinks: Vec<Uplinks> = (0..topology.switches.len() as u32)
            .map(|switch| Uplinks::new(&topology, switch))
            .collect();
        // The first agg of pod 0 loses its last uplink, and edge 31 its second one.
        let lost = [uplinks[32].ports[3].cable(), uplinks[31].ports[1].cable()];
        let routes = Routes::new(&topology, |port| !lost.contains(&port.cable()));
        let working = |ways: (u32, u32), all: u32| -> Vec<u32> {
            (0..all).filter(|route| routes.has(&topology, &uplinks, ways, *route)).collect()
        };
        let other_pod: Vec<u32> = (0..16).filter(|route| *route != 12).collect();
        assert_eq!(working((0, 100), 16), other_pod);
        let to_31: Vec<u32> = (0..16).filter(|route| route % 4 != 1 && *route != 12).collect();
        assert_eq!(working((0, 127), 16), to_31, "the way down counts as well");
        assert_eq!(working((0, 4), 4), [0, 1, 2, 3], "within the pod nothing is lost");
    }
}
