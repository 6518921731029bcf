//! The report of rank 0 over all ranks.

use braid_lab::median;
use braid_lab::table::Columns;
use serde::Serialize;

use super::args::{Carrier, MoeArgs};
use super::routing::Routing;

/// The content of the result file.
#[derive(Serialize)]
pub(super) struct MoeReport {
    ranks: usize,
    token_bytes: u32,
    tokens: u32,
    experts: u32,
    top_k: u32,
    zipf: f64,
    /// Puts of all ranks in a round, dispatch and combine.
    puts: usize,
    /// Puts that the busiest rank receives, over the mean.
    busiest_over_mean: f64,
    rounds: usize,
    contestants: Vec<ContestantReport>,
    /// The reason why the run ended before its end; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_early: Option<String>,
}

#[derive(Serialize)]
struct ContestantReport {
    name: &'static str,
    /// Seconds of each round, at the last rank.
    seconds: Vec<f64>,
    median_seconds: f64,
    /// Puts of all ranks per second.
    puts_per_second: f64,
    /// Payload of all ranks, in 10^9 bytes per second.
    gbytes_s: f64,
    /// Median of the ratios, round by round: its time over that of the first contestant.
    time_over_first: f64,
}

impl MoeReport {
    /// Creates the report. `told`: by rank, contestant and round.
    pub(super) fn new(args: &MoeArgs, routing: &Routing, told: &[Vec<Vec<f64>>]) -> MoeReport {
        let rounds = told.iter().flatten().map(Vec::len).min().unwrap_or(0);
        let puts = 2 * routing.copies.len();
        let last = |contestant: usize, round: usize| {
            told.iter().map(|rank| rank[contestant][round]).fold(0.0, f64::max)
        };
        let seconds = |contestant| (0..rounds).map(move |round| last(contestant, round));
        let report = |(place, contestant): (usize, &Carrier)| {
            let own: Vec<f64> = seconds(place).collect();
            let ratios: Vec<f64> = own.iter().zip(seconds(0)).map(|(own, one)| own / one).collect();
            let median_seconds = median(&own);
            let puts_per_second = puts as f64 / median_seconds;
            ContestantReport {
                name: contestant.name(),
                seconds: own,
                median_seconds,
                puts_per_second,
                gbytes_s: puts_per_second * f64::from(args.size) / 1e9,
                time_over_first: median(&ratios),
            }
        };
        let (_, most_received) = routing.most;
        let mean = routing.copies.len() as f64 / routing.ranks as f64;
        MoeReport {
            ranks: routing.ranks,
            token_bytes: args.size,
            tokens: args.tokens,
            experts: args.experts,
            top_k: args.top_k,
            zipf: args.zipf,
            puts,
            busiest_over_mean: most_received as f64 / mean.max(1.0),
            rounds,
            contestants: args.only.iter().enumerate().map(report).collect(),
            ended_early: None,
        }
    }

    /// Returns the lines for standard output.
    pub(super) fn text(&self) -> String {
        let Self { ranks, token_bytes, tokens, experts, top_k, zipf, puts, rounds, .. } = self;
        let mut text = format!(
            "{ranks} ranks, {experts} experts each, {tokens} tokens of {token_bytes} bytes per \
             rank to {top_k} experts, Zipf {zipf}: {puts} puts per round, the busiest rank \
             receives {:.2} of the mean; {rounds} rounds\n",
            self.busiest_over_mean
        );
        let first = self.contestants.first().map_or("", |first| first.name);
        let columns = Columns { words: 1, widths: &[17, 10, 10, 8, 16] };
        let over = format!("time/{first}");
        text += &columns.row(&["contestant", "ms", "puts/s", "GB/s", &over]);
        text.push('\n');
        for contestant in &self.contestants {
            text += &columns.row(&[
                contestant.name,
                &format!("{:.2}", contestant.median_seconds * 1e3),
                &format!("{:.0}", contestant.puts_per_second),
                &format!("{:.3}", contestant.gbytes_s),
                &format!("{:.2}", contestant.time_over_first),
            ]);
            text.push('\n');
        }
        text
    }
}
