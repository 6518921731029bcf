//! Errors of topologies.

use super::Node;

/// The reason why a topology cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A count that must be at least 1 is 0.
    #[error("{what} = 0 leaves nothing to build: give at least 1")]
    Zero {
        /// The parameter.
        what: &'static str,
    },
    /// A k-ary fat tree halves its switches' ports between up and down.
    #[error("a fat tree of switches with k = {k} ports is not possible: give an even k from 2 on")]
    OddArity {
        /// Ports per switch.
        k: u32,
    },
    /// Some aggregation switches would have more links up than others.
    #[error(
        "cores = {cores} cannot be shared evenly by the aggs_per_pod = {aggs_per_pod} aggregation \
         switches of a pod: give a multiple of {aggs_per_pod}"
    )]
    Cores {
        /// Core switches.
        cores: u32,
        /// Aggregation switches in each pod.
        aggs_per_pod: u32,
    },
    /// Some leaves would have fewer hosts than others.
    #[error(
        "hosts = {hosts} do not fill leaves of hosts_per_leaf = {hosts_per_leaf}: \
         give a divisor of \
         {hosts}"
    )]
    HostsPerLeaf {
        /// Hosts.
        hosts: u32,
        /// Interfaces below each leaf.
        hosts_per_leaf: u32,
    },
    /// More nodes or cables than a run can hold.
    #[error("{count} {what} are too many: make it smaller, at most {limit} are possible")]
    TooLarge {
        /// The kind of the items.
        what: &'static str,
        /// The requested number; saturates.
        count: u64,
        /// The maximum number.
        limit: u64,
    },
    /// No cable joins two nodes.
    #[error(
        "there is no cable from {low:?} up to {high:?}: name two neighbours, the lower one first"
    )]
    NoCable {
        /// The node nearer to the hosts.
        low: Node,
        /// The node farther from them.
        high: Node,
    },
    /// A plan made by hand contradicts itself.
    #[error("{what}: correct the plan")]
    Inconsistent {
        /// The contradiction.
        what: String,
    },
}

/// Fails if one of the named counts is 0.
pub(super) fn at_least_one(counts: &[(&'static str, u32)]) -> Result<(), TopologyError> {
    match counts.iter().find(|(_, count)| *count == 0) {
        Some((what, _)) => Err(TopologyError::Zero { what }),
        None => Ok(()),
    }
}

/// Returns the product of counts, if it does not exceed the limit.
pub(super) fn product(what: &'static str, counts: &[u32]) -> Result<u32, TopologyError> {
    /// A million interfaces with four links above each.
    const LIMIT: u32 = 1 << 22;
    let count = counts.iter().fold(1_u64, |product, count| product.saturating_mul((*count).into()));
    match u32::try_from(count) {
        Ok(count) if count <= LIMIT => Ok(count),
        _ => Err(TopologyError::TooLarge { what, count, limit: LIMIT.into() }),
    }
}
