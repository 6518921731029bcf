//! The traffic between GPUs (RailS, table I).

use braid_lab::traffic::{Phase, Workload};

/// Number of GPUs, interfaces and rails of a domain.
pub(super) const RAILS: usize = 8;
/// The seed of random matrices, the same for all schemes and seeds, so that only the network
/// differs.
const MATRIX_SEED: u64 = 1;

/// The mapping of GPUs to places in a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Numbering {
    /// The first places belong to the first domain.
    ByDomain,
    /// The first places belong to the first GPUs of all domains.
    Across,
}

/// The load of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Load {
    /// All GPUs have rows and columns of their own.
    Gpus(Workload, Numbering),
    /// Each domain has an expert, whose data are spread evenly over its GPUs.
    Dense(Phase),
    /// Each domain has an expert, whose data are on its first GPU, which also receives for it.
    Sparse(Phase),
    /// From the first domain to the second, from each GPU to its counterpart.
    FromAll,
    /// The same bytes, from the first GPU of one domain to the first of the other.
    FromOne,
    /// Each domain has an expert, whose data are on its first GPU, for the eight domains after it.
    NextEight,
    /// From all GPUs of the first half of the domains to all of the second half.
    OneWay,
}

impl Load {
    pub(super) const UNIFORM: Load = Load::Gpus(Workload::Uniform, Numbering::ByDomain);
    /// The sparsities of the paper's text, with the eighths of receivers that get nothing.
    pub(super) const SPARSE: [(&str, u32); 4] = [("0.6", 5), ("0.4", 3), ("0.2", 2), ("0", 0)];

    /// Returns a load in which this number of GPUs of each domain receive nothing.
    pub(super) fn sparse(idle: u32) -> Load {
        Load::Gpus(Workload::Sparse(f64::from(idle) / RAILS as f64), Numbering::Across)
    }

    pub(super) const fn skewed_senders(exponent: f64) -> Load {
        Load::Gpus(Workload::ZipfSenders(exponent), Numbering::ByDomain)
    }

    pub(super) const fn skewed_receivers(exponent: f64) -> Load {
        Load::Gpus(Workload::ZipfReceivers(exponent), Numbering::ByDomain)
    }

    /// Returns the flows between GPUs of different domains, because traffic within a domain uses no
    /// interface. `mean`: bytes that a GPU sends on average.
    pub(super) fn flows(self, domains: usize, mean: u64) -> Vec<Flow> {
        let domain_bytes = mean * RAILS as u64;
        let flows = match self {
            Load::Gpus(workload, numbering) => among_gpus(workload, numbering, domains, mean),
            Load::Dense(phase) => {
                let experts = Workload::MoeDense(phase).matrix(domains, domain_bytes, MATRIX_SEED);
                let share = |bytes: u64| bytes / (RAILS * RAILS) as u64;
                let pairs = || (0..RAILS).flat_map(|from| (0..RAILS).map(move |to| (from, to)));
                among_domains(&experts, |_, _, bytes| {
                    pairs().map(|(from, to)| (from, to, share(bytes))).collect()
                })
            }
            Load::Sparse(phase) => {
                let experts = Workload::MoeDense(phase).matrix(domains, domain_bytes, MATRIX_SEED);
                among_domains(&experts, |_, _, bytes| vec![(0, 0, bytes)])
            }
            Load::FromAll => (0..RAILS).map(|gpu| Flow::new(gpu, RAILS + gpu, mean)).collect(),
            Load::FromOne => vec![Flow::new(0, RAILS, domain_bytes)],
            Load::NextEight => {
                let to = |from: usize| {
                    (1..=8).map(move |step| {
                        let destination = (from + step) % domains;
                        Flow::new(from * RAILS, destination * RAILS, domain_bytes / 8)
                    })
                };
                (0..domains).flat_map(to).collect()
            }
            Load::OneWay => {
                let half = domains / 2 * RAILS;
                let to = move |from| {
                    (half..2 * half).map(move |to| Flow::new(from, to, mean / half as u64))
                };
                (0..half).flat_map(to).collect()
            }
        };
        flows.into_iter().filter(|flow| flow.bytes > 0).collect()
    }
}

/// The traffic from one GPU to one of another domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
}

impl Flow {
    fn new(from: usize, to: usize, bytes: u64) -> Flow {
        Flow { from, to, bytes }
    }

    pub(super) fn source(self) -> usize {
        self.from / RAILS
    }

    pub(super) fn destination(self) -> usize {
        self.to / RAILS
    }
}

fn among_gpus(workload: Workload, numbering: Numbering, domains: usize, mean: u64) -> Vec<Flow> {
    let gpus = domains * RAILS;
    let gpu = |place: usize| match numbering {
        Numbering::ByDomain => place,
        Numbering::Across => place % domains * RAILS + place / domains,
    };
    let matrix = workload.matrix(gpus, mean / (gpus as u64 - 1), MATRIX_SEED);
    let rows = matrix.iter().enumerate();
    let all = rows.flat_map(|(from, row)| {
        let cells = row.iter().enumerate();
        cells.map(move |(to, bytes)| Flow::new(gpu(from), gpu(to), *bytes))
    });
    all.filter(|flow| flow.source() != flow.destination()).collect()
}

fn among_domains(
    matrix: &[Vec<u64>],
    spread: impl Fn(usize, usize, u64) -> Vec<(usize, usize, u64)>,
) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (source, row) in matrix.iter().enumerate() {
        for (destination, bytes) in row.iter().enumerate() {
            flows.extend(spread(source, destination, *bytes).into_iter().map(
                |(from, to, bytes)| {
                    Flow::new(source * RAILS + from, destination * RAILS + to, bytes)
                },
            ));
        }
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(flows: &[Flow], of: fn(&Flow) -> usize, count: usize) -> Vec<u64> {
        let mut sums = vec![0; count];
        flows.iter().for_each(|flow| sums[of(flow)] += flow.bytes);
        sums
    }

    #[test]
    fn idle_receivers_are_the_same_gpus_of_every_domain() {
        let flows = Load::sparse(5).flows(4, 1 << 20);
        let received = sums(&flows, |flow| flow.to, 4 * RAILS);
        for (gpu, bytes) in received.iter().enumerate() {
            assert_eq!(*bytes > 0, gpu % RAILS < 3, "GPU {gpu} receives {bytes}");
        }
    }

    #[test]
    fn the_first_domain_has_the_first_eight() {
        let sent = sums(&Load::skewed_senders(1.2).flows(4, 1 << 20), |flow| flow.from, 32);
        assert!(sent.is_sorted_by(|a, b| a > b), "{sent:?}");
    }

    #[test]
    fn an_experts_data_lie_on_all_gpus_or_on_one() {
        let phase = Phase::Mid;
        let [dense, sparse] =
            [Load::Dense(phase), Load::Sparse(phase)].map(|load| load.flows(4, 1 << 20));
        let by_domain = |flows: &[Flow]| sums(flows, |flow| flow.from / RAILS, 4);
        for (a, b) in by_domain(&dense).into_iter().zip(by_domain(&sparse)) {
            assert!(a.abs_diff(b) < 1000, "{a} {b}");
        }
        assert!(sparse.iter().all(|flow| flow.from % RAILS == 0 && flow.to % RAILS == 0));
        assert_eq!(dense.len(), 4 * 3 * RAILS * RAILS);
    }
}
