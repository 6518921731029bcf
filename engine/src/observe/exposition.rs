//! Renders snapshots in the text format of OpenMetrics.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use braid_transport::{QpCounters, SubflowMetrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::engines::ServedEngines;
use crate::degradation::Degradation;
use crate::metrics::{EngineMetrics, QpMetrics};
use crate::paths_to::{PathRoute, PathsTo};

/// The largest number of queue pairs of an engine that are listed. `braid_queue_pairs` counts all.
const MAX_SHOWN: usize = 1024;

type Labels = Vec<(&'static str, String)>;

/// Renders the page with the state of these engines.
pub(super) fn page(engines: &ServedEngines) -> String {
    let engines = engines.lock().iter().filter_map(|(_, engine)| engine.read()).collect();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Engines(engines)));
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut page, &registry);
    page
}

#[derive(Debug)]
struct Engines(Vec<EngineMetrics>);

/// A quantity of many objects.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: MetricType,
}

impl Collector for Engines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.engines(&mut encoder)?;
        self.queue_pairs(&mut encoder)?;
        self.degradations(&mut encoder)?;
        self.subflows(&mut encoder)?;
        self.routes(&mut encoder)?;
        self.paths(&mut encoder)
    }
}

fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family<'_>,
    values: impl Iterator<Item = (&'a Labels, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
    for (labels, value) in values {
        let mut one = metric.encode_family(labels)?;
        match family.kind {
            MetricType::Counter => one.encode_counter::<NoLabelSet, f64, f64>(&value, None)?,
            _ => one.encode_gauge(&value)?,
        }
    }
    Ok(())
}

fn gauge<'a>(name: &'a str, help: &'a str) -> Family<'a> {
    Family { name, help, kind: MetricType::Gauge }
}

fn counter<'a>(name: &'a str, help: &'a str) -> Family<'a> {
    Family { name, help, kind: MetricType::Counter }
}

fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(f64::NAN, |time| time.as_secs_f64())
}

fn of_engine(engine: &EngineMetrics) -> Labels {
    vec![("engine", engine.local_addr.to_string())]
}

impl Engines {
    fn engines(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let labels: Vec<Labels> = self.0.iter().map(of_engine).collect();
        let each = || labels.iter().zip(&self.0);
        let uptime = gauge("braid_uptime_seconds", "Since the engine was made");
        family(
            encoder,
            &uptime,
            each().map(|(labels, engine)| (labels, engine.uptime.as_secs_f64())),
        )?;
        let count = gauge("braid_queue_pairs", "Queue pairs that the engine has");
        let counted = each().map(|(labels, engine)| (labels, engine.queue_pairs.len() as f64));
        family(encoder, &count, counted)?;
        for (place, (name, help, _)) in crate::EngineCounters::default().each().enumerate() {
            let value = |engine: &EngineMetrics| {
                engine.counters.each().nth(place).map_or(0.0, |(_, _, value)| value as f64)
            };
            let name = format!("braid_{name}");
            let values = each().map(|(labels, engine)| (labels, value(engine)));
            family(encoder, &counter(&name, help), values)?;
        }
        Ok(())
    }

    /// The listed queue pairs.
    fn shown(&self) -> impl Iterator<Item = (&EngineMetrics, &QpMetrics)> {
        self.0.iter().flat_map(|engine| {
            engine.queue_pairs.iter().take(MAX_SHOWN).map(move |qp| (engine, qp))
        })
    }

    fn queue_pairs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<(Labels, &QpMetrics)> =
            self.shown().map(|(engine, qp)| (of_qp(engine, qp), qp)).collect();
        let states: Vec<Labels> = all
            .iter()
            .map(|(labels, qp)| {
                let error = qp.error.map_or(String::new(), |error| error.to_string());
                let protocol = qp.protocol.unwrap_or_default().to_owned();
                let state =
                    [("state", qp.state.to_string()), ("error", error), ("protocol", protocol)];
                labels.iter().cloned().chain(state).collect()
            })
            .collect();
        let state = gauge(
            "braid_qp_state",
            "1, with the state of the queue pair, why it is in ERR, and what carries its packets",
        );
        family(encoder, &state, states.iter().map(|labels| (labels, 1.0)))?;
        let mut each = |kind: Family<'_>, value: fn(&QpMetrics) -> f64| {
            family(encoder, &kind, all.iter().map(|(labels, qp)| (labels, value(qp))))
        };
        each(gauge("braid_qp_outstanding_sends", "Sends that have not ended"), |qp| {
            qp.outstanding_sends.into()
        })?;
        each(gauge("braid_qp_outstanding_recvs", "Receives that have not ended"), |qp| {
            qp.outstanding_recvs.into()
        })?;
        for (name, help, value) in QP_COUNTERS {
            let values = all.iter().map(|(labels, qp)| (labels, value(&qp.counters) as f64));
            family(encoder, &counter(&format!("braid_qp_{name}"), help), values)?;
        }
        Ok(())
    }

    fn degradations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of = |engine, qp: &QpMetrics, degradation: &Degradation| {
            let own = [
                ("name", degradation.name().to_owned()),
                ("rail", degradation.rail().to_string()),
                ("why", degradation.to_string()),
            ];
            of_qp(engine, qp).into_iter().chain(own).collect()
        };
        let all: Vec<Labels> = self
            .shown()
            .flat_map(|(engine, qp)| qp.degradations.iter().map(move |one| of(engine, qp, one)))
            .collect();
        let degraded =
            gauge("braid_qp_degraded", "1, with what the connection does without, and why");
        family(encoder, &degraded, all.iter().map(|labels| (labels, 1.0)))
    }

    fn subflows(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<(Labels, SubflowMetrics)> = self
            .shown()
            .flat_map(|(engine, qp)| {
                qp.subflows.iter().map(move |flow| {
                    let stream = format!("{:?}", flow.stream).to_lowercase();
                    let own = [("stream", stream), ("rail", flow.rail.get().to_string())];
                    (of_qp(engine, qp).into_iter().chain(own).collect(), *flow)
                })
            })
            .collect();
        let mut each = |kind: Family<'_>, value: fn(&SubflowMetrics) -> f64| {
            family(encoder, &kind, all.iter().map(|(labels, flow)| (labels, value(flow))))
        };
        each(gauge("braid_subflow_rtt_seconds", "Round-trip time, smoothed"), |flow| {
            seconds(flow.rtt)
        })?;
        each(gauge("braid_subflow_window_bytes", "Bytes that may be in flight"), |flow| {
            flow.window as f64
        })?;
        each(gauge("braid_subflow_in_flight_bytes", "Bytes in flight"), |flow| {
            flow.in_flight as f64
        })?;
        each(
            gauge("braid_subflow_rate_bits_per_second", "Rate of the congestion control"),
            |flow| flow.bits_per_second.map_or(f64::NAN, |rate| rate as f64),
        )
    }

    fn routes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of = |engine: &EngineMetrics, route: &PathRoute| -> Labels {
            let path = route.path.map_or_else(|| "none".to_owned(), |path| path.get().to_string());
            let own = [
                ("to", route.to.to_string()),
                ("rail", route.rail.to_string()),
                ("path", path),
                ("local_port", route.local_port.to_string()),
                ("remote_port", route.remote_port.to_string()),
            ];
            of_engine(engine).into_iter().chain(own).collect()
        };
        let all: Vec<Labels> = self
            .0
            .iter()
            .flat_map(|engine| engine.routes.iter().take(MAX_SHOWN).map(move |it| of(engine, it)))
            .collect();
        let route = gauge("braid_path_connection", "1, with the ports of a path's TCP connection");
        family(encoder, &route, all.iter().map(|labels| (labels, 1.0)))
    }

    fn paths(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<(Labels, PathState)> =
            self.0.iter().flat_map(|engine| paths_of(of_engine(engine), &engine.paths)).collect();
        let mut each = |kind: Family<'_>, value: fn(&PathState) -> f64| {
            family(encoder, &kind, all.iter().map(|(labels, path)| (labels, value(path))))
        };
        each(gauge("braid_path_live", "1: packets leave by it"), |path| path.live.into())?;
        each(gauge("braid_path_rtt_seconds", "Round-trip time, smoothed"), |path| {
            seconds(path.rtt)
        })?;
        each(counter("braid_path_sent", "Segments that left on it, and probes"), |path| {
            path.sent as f64
        })?;
        each(counter("braid_path_retransmitted", "Retransmissions among them"), |path| {
            path.retransmitted as f64
        })?;
        each(counter("braid_path_lost", "Packets declared lost on it"), |path| path.lost as f64)?;
        each(counter("braid_path_arrived", "Packets acknowledged"), |path| path.arrived as f64)?;
        each(
            counter("braid_path_congested", "Those whose feedback carried a congestion mark"),
            |path| path.congested as f64,
        )?;
        each(counter("braid_path_downs", "How often it was taken out of use"), |path| {
            path.downs as f64
        })?;
        let rails: Vec<(Labels, f64)> =
            self.0.iter().flat_map(|engine| in_use(of_engine(engine), &engine.paths)).collect();
        let count = gauge(
            "braid_rail_paths",
            "Paths in use; 1 where all packets have to leave from the receiving port",
        );
        family(encoder, &count, rails.iter().map(|(labels, count)| (labels, *count)))
    }
}

/// Paths in use by destination and rail: the smallest number of any worker.
fn in_use(engine: Labels, sets: &[PathsTo]) -> Vec<(Labels, f64)> {
    let mut least: BTreeMap<(IpAddr, usize), usize> = BTreeMap::new();
    for set in sets {
        let count = least.entry((set.ip, set.rail)).or_insert(set.in_use);
        *count = set.in_use.min(*count);
    }
    let labelled = least.into_iter().map(|((ip, rail), count)| {
        let own = [("to", ip.to_string()), ("rail", rail.to_string())];
        (engine.iter().cloned().chain(own).collect(), count as f64)
    });
    labelled.collect()
}

fn of_qp(engine: &EngineMetrics, qp: &QpMetrics) -> Labels {
    let peer = qp.peer.map_or(String::new(), |peer| peer.to_string());
    let own = [("qp", qp.number.to_string()), ("peer", peer)];
    of_engine(engine).into_iter().chain(own).collect()
}

/// The name, the description and the value of each counter of a queue pair.
type QpCounter = (&'static str, &'static str, fn(&QpCounters) -> u64);
const QP_COUNTERS: [QpCounter; 19] = [
    ("segments_sent", "Data segments sent, retransmissions included", |of| of.segments_sent),
    ("retransmitted", "Retransmissions among them", |of| of.retransmitted),
    ("lost", "Segments declared lost", |of| of.lost),
    ("spurious", "Retransmissions that were unnecessary", |of| of.spurious),
    ("ecn_marks", "Congestion marks that the peer has seen", |of| of.ecn_marks),
    ("marks_received", "RoCEv2 packets with a congestion mark", |of| of.marks_received),
    ("cnps_sent", "Congestion notification packets (RoCEv2) sent", |of| of.cnps_sent),
    ("cnps_received", "Congestion notification packets (RoCEv2) received", |of| of.cnps_received),
    ("bytes_sent", "Payload bytes in segments sent", |of| of.bytes_sent),
    ("segments_received", "Data segments taken", |of| of.segments_received),
    ("bytes_received", "Payload bytes in segments taken", |of| of.bytes_received),
    ("duplicates", "Segments that had been taken before", |of| of.duplicates),
    ("out_of_order", "Segments taken ahead of the first missing one", |of| of.out_of_order),
    ("refused", "Segments refused", |of| of.refused),
    ("acks_sent", "Acknowledgements sent", |of| of.acks_sent),
    ("acks_received", "Acknowledgements received", |of| of.acks_received),
    ("rnr_naks", "Receiver not ready, received", |of| of.rnr_naks),
    ("timeouts", "Time-outs", |of| of.timeouts),
    ("untrue_acks", "Acknowledgements of what had never left", |of| of.untrue_acks),
];

/// A path as all workers see it.
#[derive(Clone, Copy, Debug)]
struct PathState {
    /// Whether all workers use the path.
    live: bool,
    /// The longest round-trip time.
    rtt: Option<Duration>,
    sent: u64,
    retransmitted: u64,
    lost: u64,
    arrived: u64,
    congested: u64,
    downs: u64,
}

fn paths_of(engine: Labels, sets: &[PathsTo]) -> Vec<(Labels, PathState)> {
    let mut sums: BTreeMap<(IpAddr, usize, u16), PathState> = BTreeMap::new();
    for set in sets {
        for report in &set.paths {
            let of = &report.counters;
            let sum = sums.entry((set.ip, set.rail, report.path.get())).or_insert(PathState {
                live: true,
                rtt: None,
                sent: 0,
                retransmitted: 0,
                lost: 0,
                arrived: 0,
                congested: 0,
                downs: 0,
            });
            sum.live &= report.live;
            sum.rtt = sum.rtt.max(of.rtt);
            sum.sent += of.sent;
            sum.retransmitted += of.retransmitted;
            sum.lost += of.lost;
            sum.arrived += of.arrived;
            sum.congested += of.congested;
            sum.downs += of.downs;
        }
    }
    let labelled = sums.into_iter().map(|((ip, rail, path), state)| {
        let own = [("to", ip.to_string()), ("rail", rail.to_string()), ("path", path.to_string())];
        (engine.iter().cloned().chain(own).collect(), state)
    });
    labelled.collect()
}
