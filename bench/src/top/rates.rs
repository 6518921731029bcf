//! Rates between two readings of the same engines.

use std::collections::BTreeMap;

use serde::Serialize;

use super::exposition::{MetricSample, MetricsPage};

/// The content of the view.
#[derive(Serialize, Debug)]
pub(super) struct View {
    pub(super) engines: Vec<Engine>,
    pub(super) queue_pairs: Vec<QueuePair>,
    pub(super) rails: Vec<Rail>,
    pub(super) paths: Vec<Path>,
}

#[derive(Serialize, Debug, Default)]
pub(super) struct Engine {
    pub(super) engine: String,
    pub(super) uptime_seconds: f64,
    pub(super) queue_pairs: u64,
    pub(super) datagrams_sent_per_second: f64,
    pub(super) datagrams_received_per_second: f64,
    pub(super) link_full_per_second: f64,
    pub(super) overflowed_per_second: f64,
    pub(super) damaged_per_second: f64,
}

#[derive(Serialize, Debug, Default)]
pub(super) struct QueuePair {
    pub(super) engine: String,
    pub(super) qp: String,
    pub(super) peer: String,
    pub(super) state: String,
    pub(super) error: String,
    pub(super) sent_gbps: f64,
    pub(super) received_gbps: f64,
    /// The shortest of its subflows. `None`: not measured.
    pub(super) rtt_us: Option<f64>,
    /// The sum over its subflows.
    pub(super) window_bytes: u64,
    pub(super) in_flight_bytes: u64,
    pub(super) lost_per_second: f64,
    pub(super) retransmitted_per_second: f64,
    pub(super) timeouts_per_second: f64,
    pub(super) marks_received_per_second: f64,
    pub(super) cnps_sent_per_second: f64,
    pub(super) cnps_received_per_second: f64,
    pub(super) outstanding_sends: u64,
    pub(super) outstanding_recvs: u64,
    /// Degradations of its connection.
    pub(super) degradations: Vec<QpDegradation>,
}

#[derive(Serialize, Debug)]
pub(super) struct QpDegradation {
    pub(super) name: String,
    pub(super) rail: String,
    pub(super) why: String,
}

/// All subflows of an engine on one rail.
#[derive(Serialize, Debug, Default)]
pub(super) struct Rail {
    pub(super) engine: String,
    pub(super) rail: String,
    pub(super) subflows: u64,
    /// Mean over the measured subflows.
    pub(super) rtt_us: Option<f64>,
    pub(super) window_bytes: u64,
    pub(super) in_flight_bytes: u64,
    pub(super) packets_per_second: f64,
    pub(super) lost_per_second: f64,
    pub(super) live_paths: u64,
    pub(super) paths: u64,
}

#[derive(Serialize, Debug, Default)]
pub(super) struct Path {
    pub(super) engine: String,
    pub(super) to: String,
    pub(super) rail: String,
    pub(super) path: String,
    pub(super) live: bool,
    pub(super) rtt_us: Option<f64>,
    pub(super) packets_per_second: f64,
    pub(super) lost_per_second: f64,
    pub(super) marked_per_second: f64,
    pub(super) downs: u64,
}

/// Values by metric name.
type Values<'a> = BTreeMap<&'a str, f64>;
type Labels = BTreeMap<String, String>;

/// Values by their common labels.
struct ByLabels<'a>(BTreeMap<&'a Labels, Values<'a>>);

impl<'a> ByLabels<'a> {
    fn of(page: &'a MetricsPage, prefixes: &[&str]) -> Self {
        let mut by_labels: BTreeMap<&Labels, Values<'_>> = BTreeMap::new();
        for MetricSample { name, labels, value } in &page.0 {
            let Some(rest) = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
                continue;
            };
            let name = rest.strip_suffix("_total").unwrap_or(rest);
            by_labels.entry(labels).or_default().insert(name, *value);
        }
        ByLabels(by_labels)
    }
}

/// One object at both readings.
struct Between<'a> {
    now: &'a Values<'a>,
    before: Option<&'a Values<'a>>,
    seconds: f64,
}

impl Between<'_> {
    fn value(&self, name: &str) -> f64 {
        self.now.get(name).copied().unwrap_or(0.0)
    }

    fn count(&self, name: &str) -> u64 {
        self.value(name) as u64
    }

    fn micros(&self, name: &str) -> Option<f64> {
        self.now.get(name).filter(|value| value.is_finite()).map(|seconds| seconds * 1e6)
    }

    /// Returns the rate. New objects count from their start; a counter that went backwards belongs
    /// to another object.
    fn rate(&self, name: &str) -> f64 {
        let before = self.before.and_then(|before| before.get(name)).copied().unwrap_or(0.0);
        let rate = (self.value(name) - before).max(0.0) / self.seconds;
        if rate.is_finite() { rate } else { 0.0 }
    }
}

impl View {
    pub(super) fn between(before: &MetricsPage, now: &MetricsPage) -> View {
        let spans = spans(before, now);
        let between = |prefixes: &[&str], make: &mut dyn FnMut(&Labels, &Between<'_>)| {
            let (then, by_labels) = (ByLabels::of(before, prefixes), ByLabels::of(now, prefixes));
            for (labels, values) in &by_labels.0 {
                let seconds = labels.get("engine").and_then(|engine| spans.get(engine.as_str()));
                let (before, seconds) = (then.0.get(labels), seconds.copied().unwrap_or(1.0));
                make(labels, &Between { now: values, before, seconds });
            }
        };
        let mut engines = Vec::new();
        between(&["braid_"], &mut |labels, of| {
            if labels.len() == 1 {
                engines.push(engine(labels, of));
            }
        });
        let mut paths = Vec::new();
        between(&["braid_path_"], &mut |labels, of| paths.push(path(labels, of)));
        let (mut queue_pairs, mut rails) = (BTreeMap::new(), BTreeMap::new());
        between(&["braid_qp_"], &mut |labels, of| add_qp(&mut queue_pairs, labels, of));
        between(&["braid_subflow_"], &mut |labels, of| {
            add_subflow(&mut queue_pairs, &mut rails, labels, of);
        });
        paths.iter().for_each(|path| add_path(&mut rails, path));
        use_counts(&mut rails, now);
        let mut queue_pairs: Vec<QueuePair> = queue_pairs.into_values().collect();
        queue_pairs.sort_by(|a, b| {
            let rate = |qp: &QueuePair| qp.sent_gbps + qp.received_gbps;
            rate(b).total_cmp(&rate(a))
        });
        paths.sort_by(|a, b| b.packets_per_second.total_cmp(&a.packets_per_second));
        View { engines, queue_pairs, rails: rails.into_values().collect(), paths }
    }
}

/// Returns the seconds between the two readings, by the clock of each engine.
fn spans<'a>(before: &'a MetricsPage, now: &'a MetricsPage) -> BTreeMap<&'a str, f64> {
    let uptimes = |page: &'a MetricsPage| {
        let uptimes = page.0.iter().filter(|sample| sample.name == "braid_uptime_seconds");
        uptimes.filter_map(|sample| Some((sample.labels.get("engine")?.as_str(), sample.value)))
    };
    let before: BTreeMap<&str, f64> = uptimes(before).collect();
    let span = |(engine, now): (&'a str, f64)| {
        let began = before.get(engine).copied().unwrap_or(0.0);
        let began = if began < now { began } else { 0.0 };
        (engine, (now - began).max(1e-9))
    };
    uptimes(now).map(span).collect()
}

fn label(labels: &Labels, name: &str) -> String {
    labels.get(name).cloned().unwrap_or_default()
}

fn engine(labels: &Labels, of: &Between<'_>) -> Engine {
    Engine {
        engine: label(labels, "engine"),
        uptime_seconds: of.value("uptime_seconds"),
        queue_pairs: of.count("queue_pairs"),
        datagrams_sent_per_second: of.rate("datagrams_sent"),
        datagrams_received_per_second: of.rate("datagrams_received"),
        link_full_per_second: of.rate("link_full"),
        overflowed_per_second: of.rate("overflowed"),
        damaged_per_second: of.rate("header_check") + of.rate("payload_check"),
    }
}

/// The queue pairs by engine, number and peer.
type QueuePairs = BTreeMap<[String; 3], QueuePair>;

fn qp_key(labels: &Labels) -> [String; 3] {
    ["engine", "qp", "peer"].map(|name| label(labels, name))
}

fn add_qp(all: &mut QueuePairs, labels: &Labels, of: &Between<'_>) {
    let key = qp_key(labels);
    let [engine, number, peer] = key.clone();
    let qp = all.entry(key).or_default();
    (qp.engine, qp.qp, qp.peer) = (engine, number, peer);
    if labels.contains_key("state") {
        (qp.state, qp.error) = (label(labels, "state"), label(labels, "error"));
        return;
    }
    if labels.contains_key("why") {
        let [name, rail, why] = ["name", "rail", "why"].map(|name| label(labels, name));
        qp.degradations.push(QpDegradation { name, rail, why });
        return;
    }
    qp.sent_gbps = of.rate("bytes_sent") * 8e-9;
    qp.received_gbps = of.rate("bytes_received") * 8e-9;
    qp.lost_per_second = of.rate("lost");
    qp.retransmitted_per_second = of.rate("retransmitted");
    qp.timeouts_per_second = of.rate("timeouts");
    qp.marks_received_per_second = of.rate("marks_received");
    qp.cnps_sent_per_second = of.rate("cnps_sent");
    qp.cnps_received_per_second = of.rate("cnps_received");
    qp.outstanding_sends = of.count("outstanding_sends");
    qp.outstanding_recvs = of.count("outstanding_recvs");
}

/// The rails by engine and number.
type Rails = BTreeMap<[String; 2], Rail>;

fn rail<'a>(rails: &'a mut Rails, engine: &str, number: &str) -> &'a mut Rail {
    let key = [engine.to_owned(), number.to_owned()];
    let [engine, rail] = key.clone();
    rails.entry(key).or_insert_with(|| Rail { engine, rail, ..Rail::default() })
}

fn add_subflow(qps: &mut QueuePairs, rails: &mut Rails, labels: &Labels, of: &Between<'_>) {
    let (window, in_flight) = (of.count("window_bytes"), of.count("in_flight_bytes"));
    let rtt = of.micros("rtt_seconds");
    if let Some(qp) = qps.get_mut(&qp_key(labels)) {
        qp.window_bytes = qp.window_bytes.saturating_add(window);
        qp.in_flight_bytes = qp.in_flight_bytes.saturating_add(in_flight);
        qp.rtt_us = qp.rtt_us.into_iter().chain(rtt).reduce(f64::min);
    }
    let rail = rail(rails, &label(labels, "engine"), &label(labels, "rail"));
    rail.window_bytes = rail.window_bytes.saturating_add(window);
    rail.in_flight_bytes = rail.in_flight_bytes.saturating_add(in_flight);
    if let Some(rtt) = rtt {
        rail.subflows += 1;
        let mean = rail.rtt_us.unwrap_or(0.0);
        rail.rtt_us = Some(mean + (rtt - mean) / rail.subflows as f64);
    }
}

fn path(labels: &Labels, of: &Between<'_>) -> Path {
    Path {
        engine: label(labels, "engine"),
        to: label(labels, "to"),
        rail: label(labels, "rail"),
        path: label(labels, "path"),
        live: of.value("live") > 0.0,
        rtt_us: of.micros("rtt_seconds"),
        packets_per_second: of.rate("sent"),
        lost_per_second: of.rate("lost"),
        marked_per_second: of.rate("congested"),
        downs: of.count("downs"),
    }
}

fn add_path(rails: &mut Rails, path: &Path) {
    let rail = rail(rails, &path.engine, &path.rail);
    rail.paths += 1;
    rail.live_paths += u64::from(path.live);
    rail.packets_per_second += path.packets_per_second;
    rail.lost_per_second += path.lost_per_second;
}

/// Takes the number of paths in use from the engine, if it reports one. A path may be live without
/// being used, when everything leaves from the receiving port.
fn use_counts(rails: &mut Rails, now: &MetricsPage) {
    let mut counts: BTreeMap<[String; 2], u64> = BTreeMap::new();
    for MetricSample { labels, value, .. } in
        now.0.iter().filter(|of| of.name == "braid_rail_paths")
    {
        let key = ["engine", "rail"].map(|name| label(labels, name));
        *counts.entry(key).or_default() += *value as u64;
    }
    for (key, count) in counts {
        rails.entry(key).and_modify(|rail| rail.live_paths = count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(uptime: f64, sent: u64) -> MetricsPage {
        let text = format!(
            "braid_uptime_seconds{{engine=\"e\"}} {uptime}\nbraid_queue_pairs{{engine=\"e\"}} 1\n\
             braid_qp_state{{engine=\"e\",qp=\"0x1\",peer=\"p\",state=\"RTS\",error=\"\"}} 1.0\n\
             braid_qp_bytes_sent_total{{engine=\"e\",qp=\"0x1\",peer=\"p\"}} {sent}\n\
             braid_subflow_rtt_seconds{{engine=\"e\",qp=\"0x1\",peer=\"p\",\
             stream=\"requests\",rail=\"0\"}} 0.00005\n\
             braid_subflow_rtt_seconds{{engine=\"e\",qp=\"0x1\",peer=\"p\",\
             stream=\"responses\",rail=\"0\"}} NaN\n\
             braid_subflow_window_bytes{{engine=\"e\",qp=\"0x1\",peer=\"p\",\
             stream=\"requests\",rail=\"0\"}} 65536\n\
             braid_path_live{{engine=\"e\",to=\"p\",rail=\"0\",path=\"3\"}} 1.0\n\
             braid_path_sent_total{{engine=\"e\",to=\"p\",rail=\"0\",path=\"3\"}} {sent}\n"
        );
        text.parse().unwrap()
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let view = View::between(&page(10.0, 1_000), &page(12.0, 1_000 + 250_000_000));
        let [qp] = &view.queue_pairs[..] else { panic!("{view:?}") };
        assert_eq!((qp.sent_gbps, qp.state.as_str()), (1.0, "RTS"));
        assert!(qp.rtt_us.is_some_and(|rtt| (rtt - 50.0).abs() < 1e-6));
        assert_eq!(qp.window_bytes, 65536);
        let [rail] = &view.rails[..] else { panic!("{view:?}") };
        assert_eq!((rail.live_paths, rail.packets_per_second), (1, 125_000_000.0));
        assert_eq!(view.engines[0].queue_pairs, 1);
    }

    #[test]
    fn degradations_are_read_and_the_count_of_paths_is_the_engines() {
        let mut now = page(2.0, 1);
        let more: MetricsPage = "braid_uptime_seconds{engine=\"e\"} 2\n\
             braid_qp_degraded{engine=\"e\",qp=\"0x1\",peer=\"p\",\
             name=\"path-mtu\",rail=\"0\",why=\"so\"} 1\n\
             braid_rail_paths{engine=\"e\",to=\"p\",rail=\"0\"} 0\n"
            .parse()
            .unwrap();
        now.0.extend(more.0);
        let view = View::between(&page(1.0, 1), &now);
        let [QpDegradation { name, rail, why }] = &view.queue_pairs[0].degradations[..] else {
            panic!("{view:?}")
        };
        assert_eq!([name, rail, why], ["path-mtu", "0", "so"]);
        assert_eq!((view.rails[0].live_paths, view.rails[0].paths), (0, 1));
    }

    #[test]
    fn a_restarted_engine_has_no_negative_rates() {
        let view = View::between(&page(100.0, 1_000_000), &page(1.0, 1_000));
        assert_eq!(view.queue_pairs[0].sent_gbps, 0.0);
    }
}
