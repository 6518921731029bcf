//! Distributions of message sizes, from measurements of data centres or from a file.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::error::possible_length;

/// Sizes of messages: the share of messages up to each of some sizes, linear between them.
#[derive(Clone, PartialEq, Debug)]
pub struct Sizes {
    /// Bytes and share, 0 to 1, of messages up to that size. Both rise, and the last share is 1.
    points: Vec<(u64, f64)>,
}

/// An error in a file of sizes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct SizesError {
    /// The line, from 1. `None`: the error concerns the whole file.
    pub line: Option<usize>,
    /// The error and the remedy.
    pub what: String,
}

/// Names of the distributions that are built in.
pub const NAMED_SIZES: [&str; 3] = ["web-search", "data-mining", "hadoop"];

/// Queries, updates and background traffic of a web search cluster (DCTCP, SIGCOMM 2010, Fig. 4),
/// by the points that simulations since HPCC use.
const WEB_SEARCH: &[(u64, f64)] = &[
    (10_000, 15.0),
    (20_000, 20.0),
    (30_000, 30.0),
    (50_000, 40.0),
    (80_000, 53.0),
    (200_000, 60.0),
    (1_000_000, 70.0),
    (2_000_000, 80.0),
    (5_000_000, 90.0),
    (10_000_000, 97.0),
    (30_000_000, 100.0),
];

/// A cluster for data mining (VL2, SIGCOMM 2009, Fig. 2), by the points of pFabric's simulations,
/// whose unit is a packet of 1460 bytes.
const DATA_MINING: &[(u64, f64)] = &[
    (1_460, 50.0),
    (2_920, 60.0),
    (4_380, 70.0),
    (10_220, 80.0),
    (389_820, 90.0),
    (3_076_220, 95.0),
    (97_333_820, 99.0),
    (973_333_820, 100.0),
];

/// Hadoop servers of Facebook (Roy et al., SIGCOMM 2015, Fig. 6), by the points that simulations
/// since HPCC use.
const HADOOP: &[(u64, f64)] = &[
    (100, 1.0),
    (200, 2.0),
    (300, 5.0),
    (350, 15.0),
    (400, 20.0),
    (500, 30.0),
    (600, 40.0),
    (700, 50.0),
    (1_000, 60.0),
    (2_000, 67.0),
    (7_000, 70.0),
    (30_000, 72.0),
    (50_000, 82.0),
    (80_000, 87.0),
    (120_000, 90.0),
    (300_000, 95.0),
    (1_000_000, 97.5),
    (2_000_000, 99.0),
    (10_000_000, 100.0),
];

impl Sizes {
    /// Returns a distribution that is built in.
    pub fn named(name: &str) -> Option<Sizes> {
        let points = match name {
            "web-search" => WEB_SEARCH,
            "data-mining" => DATA_MINING,
            "hadoop" => HADOOP,
            _ => return None,
        };
        // Messages up to the first size of these are spread from one byte on.
        let first = if name == "data-mining" { None } else { Some((1, 0.0)) };
        let all = first.into_iter().chain(points.iter().copied());
        Some(Sizes { points: all.map(|(bytes, percent)| (bytes, percent / 100.0)).collect() })
    }

    /// Parses a CSV file with a line `bytes,percent` for each point: the percentage of messages of
    /// at most so many bytes. Sizes between two points are equally likely. A first line with more
    /// than 0 % is the share of messages of exactly that size. A header line, empty lines and
    /// comments after `#` are ignored.
    ///
    /// # Errors
    /// A line is not of this form, sizes or percentages do not rise, a size is not that of a
    /// message, or the last percentage is not 100.
    pub fn parse(text: &str) -> Result<Sizes, SizesError> {
        let mut points: Vec<(u64, f64)> = Vec::new();
        let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default()));
        for (line, content) in lines.filter(|(_, content)| !content.trim().is_empty()) {
            let is_header = points.is_empty() && content.replace(' ', "") == "bytes,percent";
            if is_header {
                continue;
            }
            let refuse = |what| SizesError { line: Some(line), what };
            let point = point(content).map_err(refuse)?;
            follows(points.last(), point).map_err(refuse)?;
            points.push(point);
        }
        match points.last() {
            Some((_, share)) if (share - 1.0).abs() < 1e-9 => Ok(Sizes { points }),
            last => {
                let percent = last.map_or(0.0, |(_, share)| share * 100.0);
                let what = format!(
                    "the sizes end at {percent} % of the messages; add a line with the longest \
                     size and 100, such as `1000000,100`"
                );
                Err(SizesError { line: None, what })
            }
        }
    }

    /// Returns the mean size in bytes.
    pub fn mean(&self) -> f64 {
        let (first, share) = self.points[0];
        let between = self.points.windows(2).map(|pair| {
            let [(low, before), (high, share)] = [pair[0], pair[1]];
            (low + high) as f64 / 2.0 * (share - before)
        });
        first as f64 * share + between.sum::<f64>()
    }

    /// Draws a size in bytes.
    pub(super) fn draw(&self, rng: &mut Pcg64Mcg) -> u64 {
        self.at(rng.random())
    }

    /// Returns the size up to which this share of the messages goes.
    fn at(&self, share: f64) -> u64 {
        let next = self.points.partition_point(|(_, upto)| *upto < share);
        let (high, upto) = self.points[next.min(self.points.len() - 1)];
        let Some(&(low, before)) = next.checked_sub(1).and_then(|at| self.points.get(at)) else {
            return high;
        };
        low + ((share - before) / (upto - before) * (high - low) as f64).round() as u64
    }
}

fn point(content: &str) -> Result<(u64, f64), String> {
    let refused = || {
        format!(
            "`{}` is not a point of sizes; write bytes and percent, as in `10000,15`",
            content.trim()
        )
    };
    let (bytes, percent) = content.split_once(',').ok_or_else(refused)?;
    let bytes: u64 = bytes.trim().parse().map_err(|_| refused())?;
    let percent: f64 = percent.trim().parse().map_err(|_| refused())?;
    possible_length(bytes).map_err(|error| error.to_string())?;
    match (0.0..=100.0).contains(&percent) {
        true => Ok((bytes, percent / 100.0)),
        false => Err(format!("{percent} % is not a share of messages; give 0 to 100")),
    }
}

fn follows(last: Option<&(u64, f64)>, (bytes, share): (u64, f64)) -> Result<(), String> {
    let Some(&(before, upto)) = last else { return Ok(()) };
    if bytes <= before {
        return Err(format!(
            "{bytes} bytes come after {before}; sort the lines by size, each size once"
        ));
    }
    // Shares that rise keep the sizes between two points apart.
    match share > upto {
        true => Ok(()),
        false => Err(format!(
            "{} % of the messages come after {} %; give the share up to each size, which rises",
            share * 100.0,
            upto * 100.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;
    use crate::workload::MAX_MESSAGE;

    /// Means as the papers' simulations have them.
    #[test]
    fn the_built_in_means_are_those_of_the_literature() {
        let mean = |name: &str| Sizes::named(name).unwrap().mean();
        assert!((mean("web-search") / 1.71e6 - 1.0).abs() < 0.01, "{}", mean("web-search"));
        assert!((mean("hadoop") / 122e3 - 1.0).abs() < 0.03, "{}", mean("hadoop"));
        assert!((mean("data-mining") / 7.41e6 - 1.0).abs() < 0.03, "{}", mean("data-mining"));
        assert!(NAMED_SIZES.iter().all(|name| Sizes::named(name).is_some()));
        assert_eq!(Sizes::named("web"), None);
    }

    #[test]
    fn sizes_are_drawn_as_the_points_say() {
        let sizes = Sizes::parse("bytes,percent\n100,50 # half of them\n\n200, 100\n").unwrap();
        assert_eq!(sizes.mean(), 125.0);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let drawn: Vec<u64> = (0..10_000).map(|_| sizes.draw(&mut rng)).collect();
        let exact = drawn.iter().filter(|bytes| **bytes == 100).count();
        assert!((4_700..5_400).contains(&exact), "{exact}");
        assert!(drawn.iter().all(|bytes| (100..=200).contains(bytes)));
        let mean = drawn.iter().sum::<u64>() as f64 / 1e4;
        assert!((123.0..127.0).contains(&mean), "{mean}");
        assert_eq!([sizes.at(0.0), sizes.at(0.75), sizes.at(1.0)], [100, 150, 200]);
    }

    #[test]
    fn a_fixed_size_is_one_line() {
        let sizes = Sizes::parse("4096,100").unwrap();
        assert_eq!(sizes.mean(), 4096.0);
        assert_eq!([sizes.at(0.0), sizes.at(1.0)], [4096, 4096]);
    }

    #[test]
    fn errors_name_line_value_and_remedy() {
        let error = |text: &str| Sizes::parse(text).unwrap_err();
        let at = |text: &str, line: usize, part: &str| {
            let error = error(text);
            assert_eq!(error.line, Some(line), "{error}");
            assert!(error.what.contains(part), "{error}");
        };
        at("1,2\n3;4", 2, "`3;4` is not a point of sizes; write bytes and percent");
        at("-1,2", 1, "`-1,2` is not a point");
        at("1,nan", 1, "NaN % is not a share of messages");
        at("0,100", 1, "a message of 0 bytes is not possible");
        at("2000000000,100", 1, "1 GiB");
        at("10,20\n# comment\n10,30", 3, "10 bytes come after 10; sort the lines");
        at("10,20\n20,20", 2, "20 % of the messages come after 20 %");
        at("10,120", 1, "120 % is not a share");
        assert_eq!(error("10,20\n20,90").line, None);
        assert!(error("10,20\n20,90").what.contains("end at 90 %"));
        assert!(error("").what.contains("end at 0 %"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "([0-9,.#\n-]|bytes|percent){0,60}") {
            if let Ok(sizes) = Sizes::parse(&text) {
                let mean = sizes.mean();
                prop_assert!((1.0..=MAX_MESSAGE as f64).contains(&mean), "{mean}");
                let mut rng = Pcg64Mcg::seed_from_u64(1);
                for _ in 0..20 {
                    prop_assert!((1..=MAX_MESSAGE).contains(&sizes.draw(&mut rng)));
                }
            }
        }
    }
}
