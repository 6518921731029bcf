//! Parser of the OpenMetrics text format, as far as engines write it. The input is untrusted.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Maximum number of lines.
const MAX_SAMPLES: usize = 1 << 20;

/// One value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MetricSample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

/// All values of one reading.
#[derive(Clone, Debug, Default)]
pub(super) struct MetricsPage(pub(super) Vec<MetricSample>);

impl FromStr for MetricsPage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.take(MAX_SAMPLES).map(|line| sample(line).ok_or(line));
        let samples: Result<Vec<MetricSample>, &str> = samples.collect();
        let samples = samples.map_err(|line| {
            format!("`{}` is not a sample", plain(&line.chars().take(60).collect::<String>()))
        })?;
        match samples.iter().any(|sample| sample.name == "braid_uptime_seconds") {
            true => Ok(MetricsPage(samples)),
            false => Err("the reply has no metrics of an engine".to_owned()),
        }
    }
}

/// Parses `name{label="value",..} number`, or without labels.
fn sample(line: &str) -> Option<MetricSample> {
    let (start, value) = line.rsplit_once(' ')?;
    let (name, labels) = match start.split_once('{') {
        None => (start, BTreeMap::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
    };
    Some(MetricSample { name: name.to_owned(), labels, value: value.parse().ok()? })
}

fn labels(text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(name.to_owned(), plain(&value));
        rest = match after.strip_prefix(',') {
            Some(more) => more,
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(labels)
}

/// Parses up to the closing quotation mark. Returns the value and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, letter) in text.char_indices() {
        match (escaped, letter) {
            (false, '"') => return Some((value, &text[at + 1..])),
            (false, '\\') => escaped = true,
            (true, 'n') => (escaped, _) = (false, value.push('\n')),
            (_, letter) => (escaped, _) = (false, value.push(letter)),
        }
    }
    None
}

/// Replaces control characters, which a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let text = "# HELP x y\nbraid_uptime_seconds{engine=\"[::1]:4791\"} 2.5\n\
                    braid_qp_lost_total{engine=\"a\",qp=\"0x1\",peer=\"a \\\"b\\\\\"} 7\n# EOF\n";
        let page: MetricsPage = text.parse().unwrap();
        assert_eq!(page.0[0].labels["engine"], "[::1]:4791");
        assert_eq!((page.0[0].value, page.0[1].value), (2.5, 7.0));
        assert_eq!(page.0[1].labels["peer"], "a \"b\\");
    }

    #[test]
    fn non_metrics_reply_is_rejected_and_escaped() {
        for text in ["", "hello", "braid_uptime_seconds{engine=\"a} 1", "up 1", "x{a=\"b\"c} 1"] {
            assert!(text.parse::<MetricsPage>().is_err(), "{text}");
        }
        let evil: MetricsPage = "braid_uptime_seconds{engine=\"\x1b[2J\"} 1".parse().unwrap();
        assert_eq!(evil.0[0].labels["engine"], "?[2J");
    }
}
