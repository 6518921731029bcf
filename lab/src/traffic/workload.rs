//! The traffic matrices of RailS (table I): how many bytes each rank sends to each other.

use std::fmt;
use std::str::FromStr;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Phase;

/// The default exponent of Zipf distributions. The paper does not state it.
pub const ZIPF: f64 = 1.2;
/// Number of experts that get a token.
const TOP: usize = 2;
/// Number of tokens of each rank under Top-2. More tokens spread the load more evenly.
const TOKENS: usize = 256;

/// A kind of traffic matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Workload {
    /// Each pair of ranks exchanges the same number of bytes.
    Uniform,
    /// Each token goes to two receivers. This share of the receivers gets nothing.
    Sparse(f64),
    /// The bytes of the senders follow a Zipf distribution with this exponent, spread evenly over
    /// the receivers.
    ZipfSenders(f64),
    /// The bytes of the receivers follow a Zipf distribution with this exponent.
    ZipfReceivers(f64),
    /// All ranks send to experts by a Zipf distribution, each in its own order.
    MoeDense(Phase),
    /// One rank sends to experts by a Zipf distribution.
    MoeSparse(Phase),
}

impl Workload {
    /// The workloads of the paper.
    pub fn all() -> Vec<Workload> {
        let phases = |kind: fn(Phase) -> Workload| Phase::ALL.into_iter().map(kind);
        let mut all = vec![Workload::Uniform];
        all.extend([0.6, 0.4, 0.2, 0.].map(Workload::Sparse));
        all.extend([Workload::ZipfSenders(ZIPF), Workload::ZipfReceivers(ZIPF)]);
        all.extend(phases(Workload::MoeDense).chain(phases(Workload::MoeSparse)));
        all
    }

    /// The bytes by sender and receiver, `mean` for a pair of ranks on average and 0 from a rank to
    /// itself. All machines compute the same matrix.
    pub fn matrix(&self, size: usize, mean: u64, seed: u64) -> Vec<Vec<u64>> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let row = |from: usize| {
            let mut row = self.row(from, size, &mut rng);
            row[from] = 0.;
            row
        };
        let weights: Vec<Vec<f64>> = (0..size).map(row).collect();
        let sum: f64 = weights.iter().flatten().sum();
        let total = (mean * (size * size.saturating_sub(1)) as u64) as f64;
        let bytes = |weight: f64| if sum > 0. { (weight / sum * total).round() as u64 } else { 0 };
        weights.into_iter().map(|row| row.into_iter().map(bytes).collect()).collect()
    }

    fn row(&self, from: usize, size: usize, rng: &mut Pcg64Mcg) -> Vec<f64> {
        let zipf = |place: usize, exponent: f64| ((place + 1) as f64).powf(-exponent);
        match *self {
            Workload::Uniform => vec![1.; size],
            Workload::ZipfSenders(exponent) => vec![zipf(from, exponent); size],
            Workload::ZipfReceivers(exponent) => (0..size).map(|to| zipf(to, exponent)).collect(),
            Workload::Sparse(share) => {
                let active = size - (share * size as f64).round() as usize;
                top_two(from, size, active.max(1), rng)
            }
            Workload::MoeSparse(_) if from > 0 => vec![0.; size],
            Workload::MoeDense(phase) | Workload::MoeSparse(phase) => {
                let mut order: Vec<usize> = (0..size).collect();
                shuffle(&mut order, rng);
                order.into_iter().map(|place| zipf(place, phase.exponent())).collect()
            }
        }
    }
}

/// The number of tokens from a rank to each of the first `active` ranks.
fn top_two(from: usize, size: usize, active: usize, rng: &mut Pcg64Mcg) -> Vec<f64> {
    let mut experts: Vec<usize> = (0..active).filter(|to| *to != from).collect();
    let mut tokens = vec![0.; size];
    for _ in 0..TOKENS {
        shuffle(&mut experts, rng);
        experts.iter().take(TOP).for_each(|to| tokens[*to] += 1.);
    }
    tokens
}

/// The most bytes that a rank sends or receives.
pub fn busiest(matrix: &[Vec<u64>]) -> u64 {
    let rows = matrix.iter().map(|row| row.iter().sum::<u64>());
    let columns = (0..matrix.len()).map(|to| matrix.iter().map(|row| row[to]).sum());
    rows.chain(columns).max().unwrap_or(0)
}

fn shuffle(order: &mut [usize], rng: &mut Pcg64Mcg) {
    for last in (1..order.len()).rev() {
        order.swap(last, rng.random_range(0..=last));
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Uniform => f.write_str("uniform"),
            Workload::Sparse(share) => write!(f, "sparse:{share}"),
            Workload::ZipfSenders(ZIPF) => f.write_str("zipf-senders"),
            Workload::ZipfReceivers(ZIPF) => f.write_str("zipf-receivers"),
            Workload::ZipfSenders(exponent) => write!(f, "zipf-senders:{exponent}"),
            Workload::ZipfReceivers(exponent) => write!(f, "zipf-receivers:{exponent}"),
            Workload::MoeDense(phase) => write!(f, "moe-dense:{}", phase.name()),
            Workload::MoeSparse(phase) => write!(f, "moe-sparse:{}", phase.name()),
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let phase = || Phase::ALL.into_iter().find(|phase| phase.name() == argument);
        let exponent = || match argument {
            "" => Some(ZIPF),
            given => given.parse().ok().filter(|exponent| (0.0..=10.0).contains(exponent)),
        };
        let share = || argument.parse().ok().filter(|share| (0.0..1.0).contains(share));
        let found = match name {
            "uniform" if argument.is_empty() => Some(Workload::Uniform),
            "zipf-senders" => exponent().map(Workload::ZipfSenders),
            "zipf-receivers" => exponent().map(Workload::ZipfReceivers),
            "sparse" => share().map(Workload::Sparse),
            "moe-dense" => phase().map(Workload::MoeDense),
            "moe-sparse" => phase().map(Workload::MoeSparse),
            _ => None,
        };
        found.ok_or_else(|| {
            let names: Vec<String> = Workload::all().iter().map(Workload::to_string).collect();
            format!("no workload is called `{text}`; there is: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(matrix: &[Vec<u64>]) -> (Vec<u64>, Vec<u64>) {
        let rows = matrix.iter().map(|row| row.iter().sum());
        let columns = (0..matrix.len()).map(|to| matrix.iter().map(|row| row[to]).sum());
        (rows.collect(), columns.collect())
    }

    #[test]
    fn every_workload_has_its_name_and_its_volume() {
        for workload in Workload::all() {
            let name = workload.to_string();
            assert_eq!(name.parse(), Ok(workload));
            let matrix = workload.matrix(8, 100_000, 3);
            assert_eq!(matrix, workload.matrix(8, 100_000, 3), "all ranks compute the same");
            let total: u64 = matrix.iter().flatten().sum();
            assert!(total.abs_diff(8 * 7 * 100_000) < 64, "{name}: {total}");
            assert!((0..8).all(|rank| matrix[rank][rank] == 0));
        }
        let steeper = "zipf-senders:1.5";
        assert_eq!(steeper.parse::<Workload>().unwrap().to_string(), steeper);
        assert!("zipf-senders:x".parse::<Workload>().is_err());
        assert!("sparse:1".parse::<Workload>().is_err());
        assert!("zipf".parse::<Workload>().unwrap_err().contains("moe-sparse:stable"));
    }

    #[test]
    fn skew_is_where_the_name_says() {
        let of = |name: &str| sums(&name.parse::<Workload>().unwrap().matrix(8, 100_000, 1));
        let (rows, columns) = of("zipf-senders");
        assert!(rows.is_sorted_by(|a, b| a > b) && rows[0] > 8 * rows[7]);
        assert!(columns.iter().max().unwrap() < &(2 * columns.iter().min().unwrap()));
        let (rows, columns) = of("zipf-receivers");
        assert!(columns.is_sorted_by(|a, b| a > b) && columns[0] > 8 * columns[7]);
        assert!(rows.iter().max().unwrap() < &(3 * rows.iter().min().unwrap()));
        let (_, columns) = of("sparse:0.6");
        assert_eq!(columns.iter().filter(|bytes| **bytes == 0).count(), 5);
        let (rows, _) = of("moe-sparse:mid");
        assert!(rows[0] > 0 && rows[1..].iter().all(|bytes| *bytes == 0));
    }
}
