//! The report of rank 0 over all ranks.

use std::net::IpAddr;

use braid::paths::LoadMse;
use braid_lab::table::Columns;
use braid_lab::traffic::{Workload, busiest};
use serde::{Deserialize, Serialize};

use super::args::AllToAllArgs;
use super::rank::Seen;

/// The results of one workload.
#[derive(Serialize, Deserialize)]
pub(super) struct AllToAllReport {
    workload: String,
    rail_policy: String,
    ranks: usize,
    rails: usize,
    /// Measured rounds.
    rounds: usize,
    /// Bytes between ranks in a round.
    bytes: u64,
    /// Seconds until a round is complete at the last rank, as the mean over rounds. The fields
    /// below are over all ranks and rounds.
    pub(super) cct: f64,
    mean: f64,
    p80: f64,
    p95: f64,
    p99: f64,
    /// Bytes per second and rank: (bytes of all ranks / ranks / CCT) x (ranks - 1) / ranks.
    bus_bandwidth: f64,
    /// Lower bound in seconds at the given rate: max(row sum, column sum) / (rails x rate).
    bound: Option<f64>,
    /// Packets in all rounds, by rank and rail.
    sent: Vec<Vec<u64>>,
    received: Vec<Vec<u64>>,
    send_mse: Option<Mse>,
    receive_mse: Option<Mse>,
}

/// The load error of the rank with the most uneven rails, among those with enough packets.
#[derive(Serialize, Deserialize)]
struct Mse {
    of_max: f64,
    of_mean: f64,
}

/// Packets per rank, rail and round below which the balance is not judged.
const FEW: u64 = 64;

impl Mse {
    /// Returns the largest error. `None`: no rank has enough packets.
    fn of(loads: &[Vec<u64>], rounds: u64) -> Option<Mse> {
        let enough =
            |rails: &&Vec<u64>| rails.iter().sum::<u64>() >= FEW * rounds * rails.len() as u64;
        let mse = |rails: &Vec<u64>| LoadMse::of(rails.iter().map(|load| *load as f64));
        let worst = |a: LoadMse, b: LoadMse| if a.of_mean > b.of_mean { a } else { b };
        let LoadMse { of_max, of_mean } = loads.iter().filter(enough).map(mse).reduce(worst)?;
        Some(Mse { of_max, of_mean })
    }
}

impl AllToAllReport {
    /// Creates the report. `rails`: the addresses of each rank, by rail.
    pub(super) fn new(
        workload: Workload,
        policy: &str,
        args: &AllToAllArgs,
        matrix: &[Vec<u64>],
        seen: &[Seen],
        rails: &[Vec<IpAddr>],
    ) -> AllToAllReport {
        let (ranks, rounds) = (matrix.len(), seen[0].seconds.len());
        let last = |round: usize| seen.iter().map(|rank| rank.seconds[round]).fold(0., f64::max);
        let cct = (0..rounds).map(last).sum::<f64>() / rounds as f64;
        let mut all: Vec<f64> = seen.iter().flat_map(|rank| rank.seconds.iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        let quantile =
            |share: f64| all[((all.len() as f64 * share).ceil() as usize).clamp(1, all.len()) - 1];
        let bytes: u64 = matrix.iter().flatten().sum();
        let count = rails.first().map_or(1, Vec::len);
        let sent: Vec<Vec<u64>> = seen.iter().map(|rank| rank.sent.clone()).collect();
        let arrived = |ip: &IpAddr| {
            let at = seen.iter().flat_map(|rank| &rank.arrived).filter(|(to, _)| to == ip);
            at.map(|(_, packets)| packets).sum::<u64>()
        };
        let received: Vec<Vec<u64>> =
            rails.iter().map(|rails| rails.iter().map(arrived).collect()).collect();
        let bound =
            args.rate.map(|rate| busiest(matrix) as f64 * 8. / (count as f64 * rate.bits() as f64));
        let share = (ranks.saturating_sub(1)) as f64 / ranks as f64;
        AllToAllReport {
            workload: workload.to_string(),
            rail_policy: policy.to_owned(),
            ranks,
            rails: count,
            rounds,
            bytes,
            cct,
            mean: all.iter().sum::<f64>() / all.len() as f64,
            p80: quantile(0.80),
            p95: quantile(0.95),
            p99: quantile(0.99),
            bus_bandwidth: bytes as f64 / ranks as f64 / cct * share,
            bound,
            send_mse: Mse::of(&sent, rounds as u64 + 1),
            receive_mse: Mse::of(&received, rounds as u64 + 1),
            sent,
            received,
        }
    }

    /// The headings of [`AllToAllReport::cells`].
    pub(super) const COLUMNS: [&str; 9] = [
        "CCT ms", "/bound", "mean ms", "p80 ms", "p95 ms", "p99 ms", "bus MB/s", "MSE send",
        "MSE recv",
    ];

    pub(super) fn head() -> String {
        row("workload", &Self::COLUMNS.map(str::to_owned))
    }

    pub(super) fn line(&self) -> String {
        row(&self.workload, &self.cells())
    }

    /// Returns the completion time over the bound.
    pub(super) fn over_bound(&self) -> String {
        self.bound.map_or("-".to_owned(), |bound| format!("{:.3}", self.cct / bound))
    }

    pub(super) fn cells(&self) -> [String; 9] {
        let ms = |seconds: f64| format!("{:.2}", seconds * 1e3);
        let mse = |mse: &Option<Mse>| {
            mse.as_ref().map_or("-".to_owned(), |mse| format!("{:.4}", mse.of_mean))
        };
        [
            ms(self.cct),
            self.over_bound(),
            ms(self.mean),
            ms(self.p80),
            ms(self.p95),
            ms(self.p99),
            format!("{:.2}", self.bus_bandwidth / 1e6),
            mse(&self.send_mse),
            mse(&self.receive_mse),
        ]
    }
}

/// The widths of the columns, so that rows can be printed one by one.
const COLUMNS: Columns<'_> = Columns { words: 1, widths: &[17, 8, 8, 8, 8, 8, 8, 8, 8, 8] };

fn row(workload: &str, cells: &[String; 9]) -> String {
    let cells: Vec<&str> = [workload].into_iter().chain(cells.iter().map(String::as_str)).collect();
    COLUMNS.row(&cells)
}
