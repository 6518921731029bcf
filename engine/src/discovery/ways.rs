//! Sorts paths into routes, although not every hop has answered.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::map::Way;
use super::trace::Trace;

type Hop = Option<IpAddr>;

/// Paths sorted into routes.
#[derive(Default)]
pub(super) struct Sorted {
    /// The routes sorted by hops, with their paths in the order of the traces.
    pub(super) ways: Vec<Way>,
    /// The traces, by index, that fit several routes, and the times to live at which another answer
    /// may decide.
    pub(super) doubtful: Vec<(usize, Vec<u8>)>,
}

/// Sorts traces into routes.
///
/// Two traces agree if no hop that both know differs. A trace belongs to a route if all traces that
/// agree with it agree with each other. Whatever its unknown hops are, no answer then contradicts.
/// A trace that agrees with two contradicting ones could belong to either, so it gets no route. The
/// result does not depend on the order of the traces. Traces without doubt that agree always share
/// their route.
///
/// A trace without a known hop, or one that a router refused to forward, gets no route.
pub(super) fn sort(traces: &[Trace], destination: IpAddr) -> Sorted {
    let mut alike: BTreeMap<&[Hop], Vec<usize>> = BTreeMap::new();
    for (index, trace) in traces.iter().enumerate() {
        if trace.refused_by.is_none() {
            alike.entry(trace.hops()).or_default().push(index);
        }
    }
    let mut ways: Vec<(Vec<Hop>, Vec<usize>)> = Vec::new();
    let mut doubtful = Vec::new();
    for (hops, members) in &alike {
        let contested = contested(hops, alike.keys().copied());
        if !contested.is_empty() {
            doubtful.extend(members.iter().map(|&index| (index, contested.clone())));
        } else if hops.iter().any(Option::is_some) {
            match ways.iter_mut().find(|(known, _)| agree(known, hops)) {
                Some((known, paths)) => {
                    known.iter_mut().zip(*hops).for_each(|(known, hop)| *known = known.or(*hop));
                    paths.extend(members);
                }
                None => ways.push((hops.to_vec(), members.clone())),
            }
        }
    }
    let mut ways: Vec<Way> =
        ways.into_iter().map(|(hops, members)| way(hops, members, traces, destination)).collect();
    ways.sort();
    doubtful.sort();
    Sorted { ways, doubtful }
}

fn way(mut hops: Vec<Hop>, mut members: Vec<usize>, traces: &[Trace], destination: IpAddr) -> Way {
    let end = hops.iter().position(|hop| *hop == Some(destination));
    let end = end.or_else(|| hops.iter().rposition(Option::is_some));
    hops.truncate(end.map_or(0, |end| end + 1));
    members.sort_unstable();
    Way { hops, ports: members.into_iter().map(|index| traces[index].path).collect() }
}

fn agree(a: &[Hop], b: &[Hop]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.is_none() || b.is_none() || a == b)
}

/// The times to live at which traces that agree with `hops` contradict each other.
fn contested<'a>(hops: &[Hop], all: impl Iterator<Item = &'a [Hop]>) -> Vec<u8> {
    let mut known = hops.to_vec();
    let mut contested = Vec::new();
    for other in all.filter(|other| agree(hops, other)) {
        for (ttl, (known, hop)) in (1..).zip(known.iter_mut().zip(other)) {
            if known.is_some() && hop.is_some() && known != hop && !contested.contains(&ttl) {
                contested.push(ttl);
            }
            *known = known.or(*hop);
        }
    }
    contested.sort_unstable();
    contested
}

#[cfg(test)]
mod tests {
    use braid_wire::PathId;

    use super::*;
    use crate::discovery::probe::Answer;

    const HOST: u8 = 99;

    fn ip(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    /// `hops`: 0 stands for no answer. The index is the path.
    fn sorted(hops: &[&[u8]]) -> Sorted {
        let traces: Vec<Trace> = hops
            .iter()
            .enumerate()
            .map(|(path, hops)| {
                let mut trace = Trace::new(PathId::new(path as u16), 6);
                for (ttl, &hop) in (1..).zip(*hops) {
                    match hop {
                        0 => {}
                        HOST => trace.record(ttl, Answer::Destination, ip(HOST)),
                        _ => trace.record(ttl, Answer::Router(ip(hop)), ip(HOST)),
                    }
                }
                trace
            })
            .collect();
        sort(&traces, ip(HOST))
    }

    /// The hops and the paths of a route.
    type Shown = (Vec<u8>, Vec<u16>);

    /// The routes, and the doubtful traces with their contested hops.
    fn shown(hops: &[&[u8]]) -> (Vec<Shown>, Vec<(usize, Vec<u8>)>) {
        let sorted = sorted(hops);
        let last = |hop: &Hop| match hop {
            Some(IpAddr::V4(ip)) => ip.octets()[3],
            _ => 0,
        };
        let ways = sorted.ways.iter().map(|way| {
            (way.hops.iter().map(last).collect(), way.ports.iter().map(|p| p.get()).collect())
        });
        (ways.collect(), sorted.doubtful)
    }

    #[test]
    fn the_same_hops_are_one_way() {
        let (ways, doubtful) =
            shown(&[&[1, 12, 3, HOST], &[1, 11, 3, HOST], &[1, 12, 3, HOST], &[1, 11, 3, HOST]]);
        assert_eq!(ways, [(vec![1, 11, 3, HOST], vec![1, 3]), (vec![1, 12, 3, HOST], vec![0, 2]),]);
        assert!(doubtful.is_empty());
    }

    #[test]
    fn a_missing_hop_that_all_ways_share_does_not_split() {
        let (ways, doubtful) =
            shown(&[&[1, 11, 3, HOST], &[0, 11, 0, HOST], &[1, 12, 3, HOST], &[0, 12, 3, 0]]);
        assert_eq!(ways, [(vec![1, 11, 3, HOST], vec![0, 1]), (vec![1, 12, 3, HOST], vec![2, 3]),]);
        assert!(doubtful.is_empty());
    }

    #[test]
    fn a_missing_hop_that_tells_ways_apart_is_doubtful() {
        let (ways, doubtful) = shown(&[&[1, 11, 3], &[1, 12, 3], &[1, 0, 3], &[0, 0, 0]]);
        assert_eq!(ways, [(vec![1, 11, 3], vec![0]), (vec![1, 12, 3], vec![1])]);
        assert_eq!(doubtful, [(2, vec![2]), (3, vec![2])]);
    }

    #[test]
    fn one_fitting_way_takes_it() {
        // At hop 2 path 2 did not answer, but hop 3 excludes the first route.
        let (ways, doubtful) = shown(&[&[1, 11, 21], &[1, 12, 22], &[1, 0, 22]]);
        assert_eq!(ways, [(vec![1, 11, 21], vec![0]), (vec![1, 12, 22], vec![1, 2])]);
        assert!(doubtful.is_empty());
    }

    #[test]
    fn halves_that_fit_only_each_other_are_one_way() {
        let (ways, _) = shown(&[&[1, 11, 0], &[0, 11, 3], &[2, 12, 0]]);
        assert_eq!(ways, [(vec![1, 11, 3], vec![0, 1]), (vec![2, 12], vec![2])]);
    }

    #[test]
    fn a_bridge_between_contradicting_ways_joins_neither() {
        let (ways, doubtful) = shown(&[&[1, 0, 21], &[1, 11, 0], &[1, 12, 0]]);
        assert_eq!(ways, [(vec![1, 11], vec![1]), (vec![1, 12], vec![2])]);
        assert_eq!(doubtful, [(0, vec![2])]);
    }

    #[test]
    fn the_order_of_traces_does_not_matter() {
        let traces: [&[u8]; 6] =
            [&[1, 0, 21], &[1, 11], &[0, 12, 22], &[1, 12], &[0, 11, 21], &[0, 0, 0, HOST]];
        let of = |order: &[usize]| {
            let hops: Vec<&[u8]> = order.iter().map(|&i| traces[i]).collect();
            let (mut ways, mut doubtful) = shown(&hops);
            for (_, paths) in &mut ways {
                *paths = paths.iter().map(|&p| order[p as usize] as u16).collect();
                paths.sort_unstable();
            }
            doubtful.iter_mut().for_each(|(index, _)| *index = order[*index]);
            doubtful.sort();
            (ways, doubtful)
        };
        let first = of(&[0, 1, 2, 3, 4, 5]);
        assert!(!first.0.is_empty() && !first.1.is_empty(), "{first:?}");
        for order in [[5, 4, 3, 2, 1, 0], [2, 0, 4, 1, 5, 3], [3, 5, 1, 4, 0, 2]] {
            assert_eq!(of(&order), first, "{order:?}");
        }
    }

    #[test]
    fn a_destination_heard_late_does_not_split() {
        let (ways, _) = shown(&[&[1, 11, 3, HOST], &[1, 11, 3, 0, 0, HOST], &[1, 11, 3]]);
        assert_eq!(ways, [(vec![1, 11, 3, HOST], vec![0, 1, 2])]);
        // A destination that is really farther does contradict.
        let (ways, _) = shown(&[&[1, 11, 3, HOST], &[1, 11, 3, 4, HOST]]);
        assert_eq!(ways.len(), 2);
    }

    #[test]
    fn silence_and_refusal_are_no_way() {
        assert!(sorted(&[&[0], &[0]]).ways.is_empty());
        let mut refused = Trace::new(PathId::new(0), 3);
        refused.record(1, Answer::Router(ip(1)), ip(HOST));
        refused.record(2, Answer::Refusal(ip(2)), ip(HOST));
        let sorted = sort(&[refused], ip(HOST));
        assert!(sorted.ways.is_empty() && sorted.doubtful.is_empty());
    }
}
