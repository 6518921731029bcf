//! The rail of each chunk, chosen by each domain for itself, in other ways than `lb`'s scheduler.

use std::cmp::Reverse;

use super::load::{Flow, RAILS};
use super::scheme::Ties;

/// Bytes of a chunk (RailS, section V-A).
pub(super) const CHUNK: u64 = 32 << 10;

/// The bytes that a flow sends on a rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// The number of the flow.
    pub(super) flow: usize,
    pub(super) rail: usize,
    pub(super) bytes: u64,
}

/// Returns the shares of all flows, at most one per flow and rail; `chunk`: maximum bytes of a
/// chunk.
pub(super) fn shares(flows: &[Flow], domains: usize, ties: Ties, chunk: u64) -> Vec<Share> {
    let mut carried = vec![[0_u64; RAILS]; flows.len()];
    for domain in 0..domains {
        let of_domain = flows.iter().enumerate().filter(|(_, flow)| flow.source() == domain);
        let pieces: Vec<Piece> =
            of_domain.flat_map(|(index, flow)| cut(index, flow, chunk)).collect();
        let rails = match ties {
            Ties::RailsOfDomain => by_domain(&pieces, domains),
            Ties::ByGpu => by_gpu(&pieces),
        };
        for (piece, rail) in pieces.iter().zip(rails) {
            carried[piece.flow][rail] += piece.bytes;
        }
    }
    let flows = carried.iter().enumerate();
    let all = flows.flat_map(|(flow, rails)| {
        rails.iter().enumerate().map(move |(rail, bytes)| Share { flow, rail, bytes: *bytes })
    });
    all.filter(|share| share.bytes > 0).collect()
}

/// A chunk of a flow.
#[derive(Clone, Copy)]
struct Piece {
    flow: usize,
    from: usize,
    destination: usize,
    bytes: u64,
}

fn cut(flow: usize, of: &Flow, chunk: u64) -> impl Iterator<Item = Piece> {
    let (from, destination, bytes) = (of.from, of.destination(), of.bytes);
    let lengths = (0..bytes.div_ceil(chunk)).map(move |nth| chunk.min(bytes - nth * chunk));
    lengths.map(move |bytes| Piece { flow, from, destination, bytes })
}

/// Gives each domain of the second half rails of its own, which rotate.
fn by_domain(pieces: &[Piece], domains: usize) -> Vec<usize> {
    let receivers = domains / 2;
    let own = (RAILS / receivers).max(1);
    let mut turns = vec![0; domains];
    let rail = |piece: &Piece| {
        let turn = &mut turns[piece.destination];
        *turn += 1;
        (piece.destination % receivers * own + *turn % own) % RAILS
    };
    pieces.iter().map(rail).collect()
}

/// Assigns rails by Algorithm 2 to the letter.
fn by_gpu(pieces: &[Piece]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|index| (Reverse(pieces[*index].bytes), pieces[*index].from));
    let (mut loads, mut rails) = ([0; RAILS], vec![0; pieces.len()]);
    for index in order {
        let least = (0..RAILS).min_by_key(|rail| loads[*rail]).unwrap_or(0);
        rails[index] = least;
        loads[least] += pieces[index].bytes;
    }
    rails
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::*;

    #[test]
    fn everything_is_sent_and_evenly() {
        let [skewed, halves] =
            [Load::skewed_receivers(1.2), Load::OneWay].map(|load| load.flows(4, 4 << 20));
        for (ties, flows) in [(Ties::ByGpu, &skewed), (Ties::RailsOfDomain, &halves)] {
            let all: u64 = flows.iter().map(|flow| flow.bytes).sum();
            let shares = shares(flows, 4, ties, CHUNK);
            assert_eq!(shares.iter().map(|share| share.bytes).sum::<u64>(), all, "{ties:?}");
            let on = |rail: usize| -> u64 {
                let of_first =
                    |share: &&Share| share.rail == rail && flows[share.flow].from < RAILS;
                shares.iter().filter(of_first).map(|share| share.bytes).sum()
            };
            let (most, least) = ((0..RAILS).map(on).max(), (0..RAILS).map(on).min());
            let difference = most.unwrap() - least.unwrap();
            assert!(difference <= all / 1000 + CHUNK, "{ties:?}: {difference}");
        }
    }
}
