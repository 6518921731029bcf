//! `[[workload]]`: the messages of a run.

use serde::Deserialize;

use super::quantity::{Bytes, Parsed, Share, Text, by_name};
use crate::time::Ps;
use crate::topology::Topology;
use crate::workload::goal::{Goal, Placement};
use crate::workload::{
    Forwarding, Fsdp, Groups, NAMED_SIZES, Pairs, Poisson, QueuePairs, Sizes, StartOrder, Workload,
    WorkloadError, all_to_all, incast, permutation, ring, ring_all_reduce, tree, tree_all_reduce,
};

/// One traffic pattern and its participants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadKeys {
    pub(super) permutation: Option<PermutationKeys>,
    pub(super) all_to_all: Option<AllToAllKeys>,
    pub(super) ring: Option<BytesKeys>,
    pub(super) ring_all_reduce: Option<BytesKeys>,
    pub(super) tree: Option<BytesKeys>,
    pub(super) tree_all_reduce: Option<TreeKeys>,
    pub(super) incast: Option<BytesKeys>,
    pub(super) fsdp: Option<FsdpKeys>,
    pub(super) matrix: Option<MatrixKeys>,
    pub(super) poisson: Option<PoissonKeys>,
    pub(super) goal: Option<GoalKeys>,
    groups: Option<u32>,
    placement: Option<Parsed<GroupPlacement>>,
    shuffle: Option<bool>,
    members: Option<Vec<Vec<u32>>>,
    start: Option<Parsed<Ps>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BytesKeys {
    bytes: Parsed<Bytes>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PermutationKeys {
    bytes: Parsed<Bytes>,
    pairs: Option<Parsed<Pairs>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AllToAllKeys {
    bytes: Parsed<Bytes>,
    order: Option<Parsed<OrderName>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeKeys {
    bytes: Parsed<Bytes>,
    chunk: Parsed<Bytes>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FsdpKeys {
    servers: u32,
    gpus_per_server: u32,
    bytes: Parsed<Bytes>,
    layers: u32,
    compute: Option<Parsed<Ps>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatrixKeys {
    /// The path of the file, relative to the scenario unless it is absolute.
    pub(super) file: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalKeys {
    /// The path of the trace, relative to the scenario unless it is absolute.
    pub(super) file: String,
    /// Number of interfaces of a rank.
    nics: Option<u32>,
    ranks: Option<Parsed<RankOrder>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoissonKeys {
    load: Parsed<LoadShare>,
    /// A distribution that is built in.
    sizes: Option<Parsed<Sizes>>,
    /// A file with a distribution, relative to the scenario unless its path is absolute.
    pub(super) file: Option<String>,
    duration: Parsed<Ps>,
    pairs: Option<Parsed<Pairs>>,
    queue_pairs: Option<Parsed<QueuePairs>>,
}

/// A load of links, above 0.
#[derive(Clone, Copy, PartialEq, Debug)]
struct LoadShare(f64);

/// The content of a file that a workload names.
#[derive(Clone, Debug)]
pub(super) enum WorkloadFile {
    Matrix(Workload),
    Sizes(Sizes),
    Goal(Goal),
}

/// The placement of groups on interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GroupPlacement {
    Blocks,
    Strided,
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OrderName {
    Rotated,
    Random,
}

/// The order in which the ranks of a trace are placed on the interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RankOrder {
    InOrder,
    Random,
}

impl Text for Pairs {
    const WHAT: &'static str = "choice of pairs";
    const EXAMPLE: &'static str = "any";

    fn from_text(text: &str) -> Result<Self, String> {
        let known =
            [("any", Pairs::Any), ("inter-edge", Pairs::InterEdge), ("inter-pod", Pairs::InterPod)];
        by_name("choice of pairs", text, &known)
    }
}

impl Text for LoadShare {
    const WHAT: &'static str = "load";
    const EXAMPLE: &'static str = "60 %";

    fn from_text(text: &str) -> Result<Self, String> {
        match Share::from_text(text)? {
            Share(load) if load > 0.0 => Ok(LoadShare(load)),
            Share(_) => Err(format!("`{text}` is no load; give more than 0 %, up to 100 %")),
        }
    }
}

impl Text for Sizes {
    const WHAT: &'static str = "distribution of sizes";
    const EXAMPLE: &'static str = NAMED_SIZES[0];

    fn from_text(text: &str) -> Result<Self, String> {
        Sizes::named(text).ok_or_else(|| {
            format!(
                "no distribution of sizes is called `{text}`; known names: {}; or give `file` \
                 instead, a CSV file of bytes and percent",
                NAMED_SIZES.join(", ")
            )
        })
    }
}

impl Text for QueuePairs {
    const WHAT: &'static str = "choice of queue pairs";
    const EXAMPLE: &'static str = "per-pair";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [("per-pair", QueuePairs::PerPair), ("per-message", QueuePairs::PerMessage)];
        by_name("choice of queue pairs", text, &known)
    }
}

impl Text for OrderName {
    const WHAT: &'static str = "order of starts";
    const EXAMPLE: &'static str = "rotated";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [("rotated", OrderName::Rotated), ("random", OrderName::Random)];
        by_name("order of starts", text, &known)
    }
}

impl Text for RankOrder {
    const WHAT: &'static str = "order of ranks";
    const EXAMPLE: &'static str = "in-order";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [("in-order", RankOrder::InOrder), ("random", RankOrder::Random)];
        by_name("order of ranks", text, &known)
    }
}

impl Text for GroupPlacement {
    const WHAT: &'static str = "placement";
    const EXAMPLE: &'static str = "strided";

    fn from_text(text: &str) -> Result<Self, String> {
        let known = [
            ("blocks", GroupPlacement::Blocks),
            ("strided", GroupPlacement::Strided),
            ("random", GroupPlacement::Random),
        ];
        by_name("placement", text, &known)
    }
}

impl WorkloadKeys {
    /// Creates the keys of a workload that is given by a file.
    pub(super) fn of_file(content: &WorkloadFile) -> WorkloadKeys {
        let file = String::new();
        match content {
            WorkloadFile::Goal(_) => {
                let goal = Some(GoalKeys { file, nics: None, ranks: None });
                WorkloadKeys { goal, ..WorkloadKeys::default() }
            }
            _ => WorkloadKeys { matrix: Some(MatrixKeys { file }), ..WorkloadKeys::default() },
        }
    }

    /// Builds the messages. `seed` decides the random choices; `file` is the content of the file,
    /// if one is named.
    pub(super) fn build(
        &self,
        topology: &Topology,
        file: Option<&WorkloadFile>,
        seed: u64,
    ) -> Result<Workload, String> {
        self.check()?;
        let interfaces = topology.nics.len() as u32;
        let built = match (file, &self.poisson) {
            (Some(WorkloadFile::Matrix(workload)), _) => Ok(workload.clone()),
            (Some(WorkloadFile::Goal(goal)), _) => {
                let keys = self.goal.as_ref().expect("the content of the file that they name");
                goal.workload(interfaces, keys.placement(seed))
            }
            (Some(WorkloadFile::Sizes(sizes)), Some(keys)) => {
                keys.plan(sizes.clone())?.workload(topology, seed)
            }
            (None, Some(keys)) => keys.plan(keys.named_sizes()?)?.workload(topology, seed),
            _ => self.pattern(topology, seed),
        };
        let mut workload = built.map_err(|error| error.to_string())?;
        workload.check(interfaces).map_err(|error| error.to_string())?;
        if let Some(Parsed(later)) = self.start {
            workload.delay(later);
        }
        Ok(workload)
    }

    fn check(&self) -> Result<(), String> {
        let grouped = [
            ("all_to_all", self.all_to_all.is_some()),
            ("ring", self.ring.is_some()),
            ("ring_all_reduce", self.ring_all_reduce.is_some()),
            ("tree", self.tree.is_some()),
            ("tree_all_reduce", self.tree_all_reduce.is_some()),
            ("incast", self.incast.is_some()),
        ];
        let single = [
            ("permutation", self.permutation.is_some()),
            ("fsdp", self.fsdp.is_some()),
            ("matrix", self.matrix.is_some()),
            ("poisson", self.poisson.is_some()),
            ("goal", self.goal.is_some()),
        ];
        let given = |patterns: &[(&str, bool)]| patterns.iter().filter(|(_, is)| *is).count();
        if given(&grouped) + given(&single) != 1 {
            let names = grouped.iter().chain(&single).map(|(name, _)| *name).collect::<Vec<_>>();
            let count = given(&grouped) + given(&single);
            return Err(format!(
                "a workload has one pattern, not {count}; give one of {}",
                names.join(", ")
            ));
        }
        let shares = self.groups.is_some() || self.placement.is_some() || self.members.is_some();
        if given(&single) == 1 && (shares || self.shuffle.is_some()) {
            return Err(
                "this pattern has no groups; remove `groups`, `placement`, `members`, `shuffle`"
                    .into(),
            );
        }
        if self.members.is_some() && (self.groups.is_some() || self.placement.is_some()) {
            return Err("`members` defines the groups; remove `groups` and `placement`".into());
        }
        Ok(())
    }

    fn pattern(&self, topology: &Topology, seed: u64) -> Result<Workload, WorkloadError> {
        if let Some(keys) = &self.permutation {
            let pairs = keys.pairs.map_or(Pairs::Any, |Parsed(pairs)| pairs);
            return permutation(topology, keys.bytes.0.0, pairs, seed);
        }
        let nodes = topology.nics.len() as u32;
        if let Some(keys) = &self.fsdp {
            return keys.plan().workload(nodes, seed);
        }
        let groups = self.group(nodes, seed)?;
        match self {
            WorkloadKeys { all_to_all: Some(keys), .. } => {
                let order = match keys.order {
                    Some(Parsed(OrderName::Random)) => StartOrder::Random { seed },
                    _ => StartOrder::Rotated,
                };
                all_to_all(&groups, keys.bytes.0.0, order)
            }
            WorkloadKeys { ring: Some(keys), .. } => ring(&groups, keys.bytes.0.0),
            WorkloadKeys { ring_all_reduce: Some(keys), .. } => {
                ring_all_reduce(&groups, keys.bytes.0.0)
            }
            WorkloadKeys { tree: Some(keys), .. } => {
                tree(&groups, keys.bytes.0.0, Forwarding::None)
            }
            WorkloadKeys { tree_all_reduce: Some(keys), .. } => {
                tree_all_reduce(&groups, keys.bytes.0.0, keys.chunk.0.0)
            }
            WorkloadKeys { incast: Some(keys), .. } => incast(&groups, keys.bytes.0.0),
            _ => unreachable!("`check` has found one pattern, and `build` has handled two others"),
        }
    }

    fn group(&self, nodes: u32, seed: u64) -> Result<Groups, WorkloadError> {
        let count = self.groups.unwrap_or(1);
        let groups = match (&self.members, self.placement) {
            (Some(members), _) => Groups::new(nodes, members.clone())?,
            (None, None | Some(Parsed(GroupPlacement::Strided))) => Groups::strided(nodes, count)?,
            (None, Some(Parsed(GroupPlacement::Blocks))) => Groups::blocks(nodes, count)?,
            (None, Some(Parsed(GroupPlacement::Random))) => Groups::random(nodes, count, seed)?,
        };
        Ok(if self.shuffle == Some(true) { groups.shuffled(seed.wrapping_add(1)) } else { groups })
    }
}

impl GoalKeys {
    fn placement(&self, seed: u64) -> Placement {
        let is_random = matches!(self.ranks, Some(Parsed(RankOrder::Random)));
        Placement { nics: self.nics.unwrap_or(1), shuffle: is_random.then_some(seed) }
    }
}

impl PoissonKeys {
    fn named_sizes(&self) -> Result<Sizes, String> {
        let named = self.sizes.as_ref().map(|Parsed(sizes)| sizes.clone());
        named.ok_or_else(|| {
            format!(
                "`poisson` needs the sizes of messages: give `sizes`, one of {}, or `file`, a CSV \
                 file of bytes and percent",
                NAMED_SIZES.join(", ")
            )
        })
    }

    fn plan(&self, sizes: Sizes) -> Result<Poisson, String> {
        if self.sizes.is_some() && self.file.is_some() {
            return Err("`sizes` and `file` both give the sizes of messages; remove one".into());
        }
        Ok(Poisson {
            load: self.load.0.0,
            sizes,
            duration: self.duration.0,
            pairs: self.pairs.map_or(Pairs::Any, |Parsed(pairs)| pairs),
            queue_pairs: self.queue_pairs.map_or(QueuePairs::PerPair, |Parsed(of)| of),
        })
    }
}

impl FsdpKeys {
    fn plan(&self) -> Fsdp {
        Fsdp {
            servers: self.servers,
            gpus_per_server: self.gpus_per_server,
            bytes_per_flow: self.bytes.0.0,
            layers: self.layers,
            compute: self.compute.map_or(Ps::ZERO, |Parsed(compute)| compute),
        }
    }
}
