//! The experts of each token, and the places of its copies: every rank computes the same from the
//! seed.
//!
//! Dispatch sends a token to the rank of each of its experts, and combine sends it back. A token
//! for an expert of its own rank needs no network and is left out.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The choice of experts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Tokens of each rank.
    pub(super) tokens: usize,
    /// Experts of each rank.
    pub(super) experts: usize,
    /// Experts of each token.
    pub(super) top_k: usize,
    /// The exponent of the experts' popularity.
    pub(super) zipf: f64,
    pub(super) seed: u64,
}

/// A copy of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TokenCopy {
    /// The rank of the token, and that of the expert.
    pub(super) source: usize,
    pub(super) home: usize,
    /// The token, counted at its rank.
    pub(super) token: usize,
    /// The expert, counted over all ranks.
    pub(super) expert: usize,
    /// The place among the copies that its source sends, where it comes back.
    pub(super) sent: usize,
    /// The place among the copies that its home receives.
    pub(super) received: usize,
}

/// All copies of a round.
pub(super) struct Routing {
    pub(super) ranks: usize,
    /// Experts of each rank.
    pub(super) experts: usize,
    pub(super) copies: Vec<TokenCopy>,
    /// The most copies that a rank sends, and receives.
    pub(super) most: (usize, usize),
}

impl Routing {
    pub(super) fn new(ranks: usize, pattern: &Pattern) -> Routing {
        let (experts, all) = (pattern.experts, ranks * pattern.experts);
        let mut random = Pcg64Mcg::seed_from_u64(pattern.seed);
        let weights = weights(all, pattern.zipf, &mut random);
        let mut copies = Vec::new();
        let (mut sent, mut received) = (vec![0; ranks], vec![0; ranks]);
        for (source, token) in (0..ranks).flat_map(|r| (0..pattern.tokens).map(move |t| (r, t))) {
            let top_k = pattern.top_k.min(all);
            for expert in choose(&weights, top_k, &mut random) {
                let home = expert / experts;
                if home == source {
                    continue;
                }
                let (sent, received) = (&mut sent[source], &mut received[home]);
                copies.push(TokenCopy {
                    source,
                    home,
                    token,
                    expert,
                    sent: *sent,
                    received: *received,
                });
                *sent += 1;
                *received += 1;
            }
        }
        let most = |counts: Vec<usize>| counts.into_iter().max().unwrap_or(0);
        Routing { ranks, experts, copies, most: (most(sent), most(received)) }
    }

    /// Returns the copies that a rank sends, in the order of their places.
    pub(super) fn from(&self, rank: usize) -> Vec<TokenCopy> {
        self.copies.iter().filter(|copy| copy.source == rank).copied().collect()
    }

    /// Returns the copies that a rank receives, in the order of their places.
    pub(super) fn to(&self, rank: usize) -> Vec<TokenCopy> {
        self.copies.iter().filter(|copy| copy.home == rank).copied().collect()
    }
}

/// Zipf weights of experts in random order, so that popular ones are on all ranks.
fn weights(count: usize, exponent: f64, random: &mut Pcg64Mcg) -> Vec<f64> {
    let mut weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
    weights.shuffle(random);
    weights
}

/// Draws different experts by their weights: the largest keys of an exponential race (Efraimidis,
/// Spirakis, 2006).
fn choose(weights: &[f64], count: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let key = |weight: f64, random: &mut Pcg64Mcg| random.random::<f64>().ln() / weight;
    let mut keys: Vec<(f64, usize)> =
        weights.iter().enumerate().map(|(expert, weight)| (key(*weight, random), expert)).collect();
    keys.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    keys.into_iter().take(count).map(|(_, expert)| expert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(zipf: f64) -> Routing {
        let pattern = Pattern { tokens: 100, experts: 4, top_k: 6, zipf, seed: 3 };
        Routing::new(5, &pattern)
    }

    #[test]
    fn every_copy_has_a_place_of_its_own_at_both_ends() {
        let routing = routing(0.5);
        let (most_sent, most_received) = routing.most;
        for rank in 0..5 {
            let (from, to) = (routing.from(rank), routing.to(rank));
            assert!(from.iter().map(|copy| copy.sent).eq(0..from.len()));
            assert!(to.iter().map(|copy| copy.received).eq(0..to.len()));
            assert!(from.len() <= most_sent && to.len() <= most_received);
            assert!(to.iter().all(|copy| copy.expert / 4 == rank && copy.source != rank));
        }
        let mut pairs: Vec<_> = routing.from(2).iter().map(|c| (c.token, c.expert)).collect();
        let all = pairs.len();
        pairs.dedup();
        assert_eq!(pairs.len(), all, "an expert gets a token once");
        // About a fifth of a token's six experts are at home.
        assert!((400..=560).contains(&all), "{all} copies");
    }

    #[test]
    fn skew_makes_one_expert_popular() {
        let popular = |routing: &Routing| {
            (0..20).map(|e| routing.copies.iter().filter(|c| c.expert == e).count()).max().unwrap()
        };
        let (even, skewed) = (popular(&routing(0.0)), popular(&routing(2.0)));
        assert!(even < 150 && skewed > 300, "{even} and {skewed} of 500 tokens");
    }
}
