//! The table of results, as perftest prints it: scripts read its columns by their place.
//!
//! The formats are those of perftest 6 (`RESULT_FMT`, `REPORT_FMT` and their like in its
//! `perftest_parameters.h`). With `-D` its latency tests have two figures; ours have the others
//! behind them.

use std::io::{self, Write};

use crate::cli::Test;
use crate::plan::{Extent, Phase};
use crate::report::Figures;

/// As perftest draws it.
pub(crate) const RULE: &str =
    "---------------------------------------------------------------------------------------";

/// The unit of a bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// 2^20 bytes a second, perftest's usual one.
    Mib,
    /// 10^9 bits a second.
    Gbits,
}

/// Which columns there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Bandwidth(Unit),
    /// The columns of a bandwidth test that shows intervals: also the time at the end of each.
    BandwidthOverTime(Unit),
    Latency,
    /// The columns of a latency test with a time limit.
    LatencyOfTime,
}

impl Table {
    pub(crate) fn new(test: Test, phase: &Phase, unit: Unit) -> Self {
        match (test.is_latency(), phase.extent) {
            (false, _) => Table::Bandwidth(unit),
            (true, Extent::Messages(_)) => Table::Latency,
            (true, Extent::Time(_)) => Table::LatencyOfTime,
        }
    }

    /// The line above the rows.
    pub(crate) fn heading(self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Table::Bandwidth(unit) => writeln!(out, "{}", unit.heading()),
            Table::BandwidthOverTime(unit) => writeln!(out, "{}    Time[sec]", unit.heading()),
            Table::Latency => writeln!(
                out,
                " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
                    t_avg[usec]    \
                t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
            ),
            Table::LatencyOfTime => writeln!(
                out,
                " #bytes        #iterations       t_avg[usec]    tps average    t_min[usec]    \
                    t_max[usec]  \
                t_typical[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
            ),
        }
    }

    /// The figures of one size; `at`: seconds from the first message, for tables with the time.
    pub(crate) fn row(self, out: &mut impl Write, figures: &Figures, at: f64) -> io::Result<()> {
        let Figures { bytes, iterations, bandwidth, latency } = figures;
        if let (Table::Bandwidth(unit) | Table::BandwidthOverTime(unit), Some(b)) =
            (self, bandwidth)
        {
            let [peak, average] =
                [b.peak_gbps.unwrap_or(0.0), b.goodput_gbps].map(|gbps| unit.of(gbps));
            let rate = b.rate_mmsgs;
            write!(
                out,
                " {bytes:<7}    {iterations:<10}       {peak:<7.2}            \
                    {average:<7.2}\t\t   {rate:<7.6}"
            )?;
            match self {
                Table::BandwidthOverTime(_) => writeln!(out, "\t     {at:<7.2}")?,
                _ => writeln!(out)?,
            }
        }
        let Some(l) = latency else { return Ok(()) };
        match self {
            Table::Latency => writeln!(
                out,
                " {bytes:<7} {iterations}          {:<7.2}        {:<7.2}      {:<7.2}  \t       \
                    {:<7.2}     \t{:<7.2}\t\t{:<7.2} \t\t{:<7.2}",
                l.min_us, l.max_us, l.p50_us, l.avg_us, l.stdev_us, l.p99_us, l.p999_us
            ),
            _ => writeln!(
                out,
                " {bytes:<7}       {iterations}            {:<7.2}        {:<11.2}    \
                    {:<7.2}        {:<7.2}      {:<7.2}  \t     {:<7.2}\t\t{:<7.2} \t\t{:<7.2}",
                l.avg_us,
                l.transactions_per_s,
                l.min_us,
                l.max_us,
                l.p50_us,
                l.stdev_us,
                l.p99_us,
                l.p999_us
            ),
        }
    }
}

impl Unit {
    /// The columns of bandwidth tests.
    fn heading(self) -> &'static str {
        match self {
            Unit::Mib => {
                " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]"
            }
            Unit::Gbits => {
                " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
            }
        }
    }

    fn of(self, gbps: f64) -> f64 {
        match self {
            Unit::Gbits => gbps,
            Unit::Mib => gbps * 1e9 / 8.0 / f64::from(1 << 20),
        }
    }
}

/// Every time, in microseconds, numbered: perftest's `-H` and `-U`.
pub(crate) fn times(out: &mut impl Write, nanoseconds: &[u64], divisor: f64) -> io::Result<()> {
    writeln!(out, "#, usec")?;
    for (index, time) in nanoseconds.iter().enumerate() {
        writeln!(out, "{}, {}", index + 1, *time as f64 / divisor / 1000.0)?;
    }
    Ok(())
}
