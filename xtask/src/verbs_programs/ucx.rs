//! UCX over the drop-in beside UCX over TCP, both on the loopback: in turn, so that what else the
//! machine does falls on both.

use std::path::Path;

use super::pair::{End, ProgramPair};
use super::table::{ProgramCase, RC_UCX};
use crate::Failure;

const TCP_UCX: &[(&str, &str)] = &[("UCX_NET_DEVICES", "lo"), ("UCX_TLS", "tcp")];
/// The client prints its result alone.
const ENDS: (&str, &str) = ("", "-f {host}");

/// The unit of the figure that counts.
#[derive(Clone, Copy)]
enum Unit {
    /// Median of half round trips.
    Microseconds,
    MegabytesPerSecond,
}

const TESTS: &[(&str, Unit)] = &[
    ("-t tag_lat -s 8 -n 5000", Unit::Microseconds),
    ("-t tag_lat -s 4096 -n 5000", Unit::Microseconds),
    ("-t tag_bw -s 4096 -n 20000", Unit::MegabytesPerSecond),
    ("-t tag_bw -s 65536 -n 4000", Unit::MegabytesPerSecond),
    ("-t tag_bw -s 1048576 -n 400", Unit::MegabytesPerSecond),
    ("-t ucp_put_bw -s 4096 -n 20000", Unit::MegabytesPerSecond),
    ("-t ucp_put_bw -s 65536 -n 4000", Unit::MegabytesPerSecond),
    ("-t ucp_put_bw -s 1048576 -n 400", Unit::MegabytesPerSecond),
];

/// Prints a table of so many rounds.
pub(super) fn compare(rounds: u64, braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    println!("| `ucx_perftest` | unit | `rc_v` | `tcp` | `rc_v` / `tcp`: median (range) |");
    println!("|---|---|---|---|---|");
    for &(options, unit) in TESTS {
        let (mut verbs, mut tcp, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let pair = [RC_UCX, TCP_UCX].map(|settings| {
                let program = "ucx_perftest";
                let case = ProgramCase {
                    program,
                    server: program,
                    options,
                    ends: ENDS,
                    port: None,
                    settings,
                };
                result(&case, unit, braid_run, logs)
            });
            let [ours, theirs] = pair;
            let (ours, theirs) = (ours?, theirs?);
            verbs.push(ours);
            tcp.push(theirs);
            ratios.push(ours / theirs);
        }
        let name = match unit {
            Unit::Microseconds => "us",
            Unit::MegabytesPerSecond => "MB/s",
        };
        let ([verbs, ..], [tcp, ..]) = (spread(verbs), spread(tcp));
        let [ratio, least, most] = spread(ratios);
        println!(
            "| `{options}` | {name} | {verbs:.1} | {tcp:.1} | {ratio:.2} ({least:.2} to {most:.2}) |"
        );
    }
    Ok(())
}

fn result(case: &ProgramCase, unit: Unit, braid_run: &Path, logs: &Path) -> Result<f64, Failure> {
    let pair = ProgramPair::new(braid_run, case, logs);
    pair.run()?;
    let said = pair.said(End::Client);
    // Iterations; median, average and overall time; average and overall bandwidth; message rates.
    let column = match unit {
        Unit::Microseconds => 1,
        Unit::MegabytesPerSecond => 5,
    };
    let last = said.lines().next_back().unwrap_or_default();
    let value = last.split_whitespace().nth(column).and_then(|value| value.parse().ok());
    value.ok_or_else(|| Failure::new(format!("ucx_perftest: no result in its last line:\n{said}")))
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn a_spread_is_the_median_and_the_ends() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
        assert_eq!(spread(vec![7.0]), [7.0; 3]);
    }
}
