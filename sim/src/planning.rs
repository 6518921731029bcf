//! Rounds whose rails are planned before the first byte leaves (RailS, Algorithm 2).

use std::collections::{BTreeMap, HashMap};

use braid_lb::{Chunk, LptRound};

use crate::time::Ps;
use crate::topology::Topology;
use crate::workload::{Message, Start, Workload, WorkloadError};

/// A workload over planned rails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The parts of all messages, at most one per message and rail.
    pub workload: Workload,
    /// The interfaces that the message of each part named.
    pub gpus: Vec<(u32, u32)>,
}

/// A chunk of a message.
#[derive(Clone, Copy)]
struct Piece {
    message: usize,
    destination: u32,
    bytes: u64,
}

/// Cuts the messages to other hosts into chunks of at most `chunk` bytes, and assigns each chunk to
/// a rail with [`LptRound`], each host for itself. Messages of a host that start together are one
/// round. Rail r leads from interface r of one host to interface r of the other. The chunks of a
/// message on one rail become one message.
///
/// # Errors
/// A message waits for others, so that its host does not know the round in advance, or the parts
/// are too many.
///
/// # Panics
/// Panics if `chunk` is 0, or if a host has more interfaces than there can be rails.
pub fn planned(
    topology: &Topology,
    workload: &Workload,
    chunk: u64,
) -> Result<Planned, WorkloadError> {
    let host = |nic: u32| topology.nics[nic as usize].host;
    let mut rounds: BTreeMap<(u32, Ps), Vec<Piece>> = BTreeMap::new();
    if !workload.steps.is_empty() {
        return Err(WorkloadError::Unplannable);
    }
    for (number, message) in workload.messages.iter().enumerate() {
        let Start::At(at) = message.start else { return Err(WorkloadError::Unplannable) };
        let (source, destination) = (host(message.src), host(message.dst));
        if source != destination {
            let pieces = rounds.entry((source, at)).or_default();
            pieces.extend(cut(number, destination, message.bytes, chunk));
        }
    }
    let nics = by_host(topology);
    let mut carried: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); workload.messages.len()];
    for ((source, _), pieces) in rounds {
        let of =
            |piece: &Piece| Chunk { destination: piece.destination as usize, bytes: piece.bytes };
        let chunks: Vec<Chunk> = pieces.iter().map(of).collect();
        let speeds = vec![1; nics[&source].len()];
        let rails = LptRound::new(source as usize, &speeds).assign(&chunks);
        for (piece, rail) in pieces.iter().zip(rails) {
            *carried[piece.message].entry(rail.get()).or_default() += piece.bytes;
        }
    }
    let planned = parts_of(workload, &carried, |message, rail| {
        (nics[&host(message.src)][rail], nics[&host(message.dst)][rail])
    });
    planned.workload.check(topology.nics.len() as u32)?;
    Ok(planned)
}

fn cut(message: usize, destination: u32, bytes: u64, chunk: u64) -> impl Iterator<Item = Piece> {
    let lengths = (0..bytes.div_ceil(chunk)).map(move |nth| chunk.min(bytes - nth * chunk));
    lengths.map(move |bytes| Piece { message, destination, bytes })
}

fn by_host(topology: &Topology) -> HashMap<u32, Vec<u32>> {
    let mut nics: HashMap<u32, Vec<u32>> = HashMap::new();
    for (nic, spec) in (0..).zip(&topology.nics) {
        nics.entry(spec.host).or_default().push(nic);
    }
    nics
}

/// Returns the parts of all messages. A message that stays on its host is its only part. Parts of
/// different queue pairs stay on different queue pairs.
fn parts_of(
    workload: &Workload,
    carried: &[BTreeMap<usize, u64>],
    ends: impl Fn(&Message, usize) -> (u32, u32),
) -> Planned {
    let mut queues = HashMap::new();
    let mut planned = Planned { workload: Workload::default(), gpus: Vec::new() };
    for (message, rails) in workload.messages.iter().zip(carried) {
        let next = queues.len() as u32;
        let queue = *queues.entry((message.src, message.dst, message.queue)).or_insert(next);
        let whole = rails.is_empty().then_some((message.src, message.dst, message.bytes));
        let parts = rails.iter().map(|(rail, bytes)| {
            let (src, dst) = ends(message, *rail);
            (src, dst, *bytes)
        });
        for (src, dst, bytes) in whole.into_iter().chain(parts) {
            planned.workload.messages.push(Message { src, dst, bytes, queue, ..message.clone() });
            planned.gpus.push((message.src, message.dst));
        }
    }
    planned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::RailOptimised;
    use crate::workload::{Groups, StartOrder, all_to_all};

    fn fabric() -> Topology {
        RailOptimised::three_hosts(4)
    }

    /// Interface 0 sends 1 MB to interface 5 of the next host, and 20 KB within its own.
    fn skewed() -> Workload {
        let at_once = |dst, bytes| Message::at_once(0, dst, bytes, 7);
        vec![at_once(5, 1_000_000), at_once(2, 20_000)].into()
    }

    #[test]
    fn a_message_to_another_host_uses_all_rails_evenly() {
        let Planned { workload, gpus } = planned(&fabric(), &skewed(), 10_000).unwrap();
        workload.check(12).unwrap();
        let parts: Vec<_> =
            workload.messages.iter().map(|part| (part.src, part.dst, part.bytes)).collect();
        let rail = |rail: u32| (rail, 4 + rail, 250_000);
        assert_eq!(parts, [rail(0), rail(1), rail(2), rail(3), (0, 2, 20_000)]);
        assert_eq!(gpus, [(0, 5), (0, 5), (0, 5), (0, 5), (0, 2)]);
        assert!(workload.messages.iter().all(|part| part.group == 7));
    }

    #[test]
    fn every_byte_is_sent_once_and_queue_pairs_stay_apart() {
        let all = Groups::all(12).and_then(|all| all_to_all(&all, 9_999, StartOrder::Rotated));
        let all = all.unwrap();
        let Planned { workload, gpus } = planned(&fabric(), &all, 1000).unwrap();
        let sum = |workload: &Workload| workload.messages.iter().map(|of| of.bytes).sum::<u64>();
        assert_eq!(sum(&workload), sum(&all));
        let mut owners = HashMap::new();
        for (part, gpus) in workload.messages.iter().zip(gpus) {
            let owner = owners.entry((part.src, part.dst, part.queue)).or_insert(gpus);
            assert_eq!(*owner, gpus);
        }
    }

    #[test]
    fn a_message_that_waits_cannot_be_planned() {
        let mut workload = skewed();
        let start = workload.after_deliveries([0], Ps::ZERO, 0);
        workload.messages.push(Message { start, ..Message::at_once(3, 8, 1, 0) });
        let error = planned(&fabric(), &workload, 1000).unwrap_err();
        assert_eq!(error, WorkloadError::Unplannable);
    }
}
