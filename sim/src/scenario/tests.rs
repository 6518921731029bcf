//! Every text is a scenario that runs, or is rejected with an error.

use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"
name = "all"
about = "every section"
model = "uec"
seed = 3
runs = 2
limit = "1 ms"

[topology.leaf_spine]
leaves = 4
hosts_per_leaf = 2
spines = 2
links_per_spine = 2
rate = "100 Gb/s"
fabric_rate = "400 Gb/s"
delay = "1 us"

[[interfaces]]
range = [6, 7]
rate = "50 Gb/s"

[network]
frames = { payload = "1000 B", header = "62 B", ack = "64 B", gap = "20 B" }
buffer = { shared = "12 MB", alpha = 1.0 }
marking = { low = "10 packets", high = "400 KB", most = "20 %", when = "joining" }
pause = { stop = "100 KB", go = "90 KB" }
control_first = true
control_hashed = true
trim = false
switch = "adaptive:bins=5%/10%/20%,age=0.1us"

[hosts]
lb = "reps"
paths = "hashed:64"
sharing = "host"
health = true
recovery = "sack"
reorder_threshold = 9
cc = "fixed:1M"
share = "95 %"
ack_every = 2
min_rto = "80 us"
max_rto = "1 ms"
retry_timeout = "7 ms"
window = 512
direct = false

[spraying]
destination_groups = [[0, 1], [6, 7]]
quantum = 8

[[workload]]
permutation = { bytes = "10 KB", pairs = "inter-edge" }

[[workload]]
all_to_all = { bytes = "1 KiB", order = "random" }
groups = 2
placement = "random"
shuffle = true
start = "5 us"

[[workload]]
poisson = { load = "90 %", sizes = "hadoop", duration = "50 us", queue_pairs = "per-message" }

[[failure]]
cable = ["leaf 0", "spine 1"]
at = "1 us"
until = "9 us"
convergence = "3 us"

[[failure]]
layers = ["edge-agg"]
count = 1
rate = "10 Gb/s"

[[failure]]
cable = ["host 2", "leaf 1"]
at = "2 us"
until = "4 us"
loss = "0.5 %"
direction = "down"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let no_files = |name: &str| {
        let what = "is not there".to_owned();
        Err(ScenarioError { file: name.to_owned(), line: None, what })
    };
    Scenario::parse("test.toml", text, &no_files)
}

fn plan(text: &str) -> Result<Plan, ScenarioError> {
    parse(text).and_then(|scenario| scenario.plan(1))
}

fn line_of(what: &str) -> usize {
    1 + WHOLE.lines().position(|line| line.contains(what)).expect("a line of the text")
}

#[test]
fn every_key_arrives_in_the_plan() {
    use crate::fabric::{Buffer, Marking, Pause, When};
    use crate::frames::Frames;
    use crate::host::{Recovery, Sharing};
    use crate::switch::Policy;
    use crate::time::Rate;

    let scenario = parse(WHOLE).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.about.as_str()), ("all", "every section"));
    assert_eq!(scenario.seeds().collect::<Vec<_>>(), [3, 4]);
    let Plan { topology, network, host, workload, changes, limit, .. } = scenario.plan(3).unwrap();
    assert_eq!(limit, Ps::from_micros(1000));
    assert_eq!((topology.nics.len(), topology.cables.len()), (8, 8 + 4 * 2 * 2));
    assert_eq!(topology.cables[0].up, Rate::from_gbps(100));
    assert_eq!(topology.cables[6].up, Rate::from_gbps(50));
    assert_eq!(topology.cables[8].down, Rate::from_gbps(400));
    assert_eq!(network.frames, Frames { payload: 1000, header: 62, ack: 64, gap: 20 });
    assert_eq!(network.buffer, Buffer::Shared { bytes: 12_000_000, alpha: 1.0 });
    let marking = Marking { low: 10_620, high: 400_000, most: 0.2, when: When::Joining, of: None };
    assert_eq!(network.marking, Some(marking));
    assert_eq!(network.pause, Some(Pause { stop: 100_000, go: 90_000 }));
    assert!(network.control_first && network.control_hashed && !network.trim);
    let bins = vec![300_000, 600_000, 1_200_000];
    assert_eq!(network.policy, Policy::Adaptive { bins, age: Ps::from_nanos(100) });
    let expected = HostConfig {
        lb: braid_lb::LbPolicy::REPS,
        paths: Paths::Hashed(64),
        sharing: Sharing::Host,
        destination_groups: vec![vec![0, 1], vec![6, 7]],
        quantum: Some(8),
        health: true,
        recovery: Recovery::Protocol(braid_transport::LossRecovery::Sack),
        reorder_threshold: 9,
        cc: braid_cc::CcConfig::new(braid_cc::FixedWindow { window: 1 << 20 }),
        share: 0.95,
        ack_every: 2,
        min_rto: std::time::Duration::from_micros(80),
        max_rto: std::time::Duration::from_millis(1),
        retry_timeout: std::time::Duration::from_millis(7),
        window: 512,
        direct: false,
        ..HostConfig::default()
    };
    assert_eq!(host, expected);
    let (patterns, drawn) = workload.messages.split_at(8 + 2 * 4 * 3);
    assert!(patterns.iter().all(|message| [1024, 10_000].contains(&message.bytes)));
    assert!(!drawn.is_empty() && drawn.windows(2).all(|pair| pair[0].queue < pair[1].queue));
    // Two cables between leaf 0 and spine 1 fail and recover, and routing learns of both. One is
    // slowed in both directions, and one loses packets in one direction for a while.
    assert_eq!(changes.len(), 2 * 2 + 2 + 2 + 2);
    let lossy = crate::topology::PortId::of_cable(2)[1];
    assert!(changes.contains(&(
        Ps::from_micros(2),
        crate::simulation::Change::Loss { port: lossy, share: 0.005 }
    )));
}

#[test]
fn the_seed_decides_what_is_random_and_nothing_else_does() {
    let scenario = parse(WHOLE).unwrap();
    assert_eq!(scenario.plan(5), scenario.plan(5));
    assert_ne!(scenario.plan(5).unwrap().workload, scenario.plan(6).unwrap().workload);
}

#[test]
fn the_second_workload_has_queue_pairs_and_groups_of_its_own() {
    let messages = plan(WHOLE).unwrap().workload.messages;
    let (first, others) = messages.split_at(8);
    assert!(first.iter().all(|message| message.queue == 0 && message.group == 0));
    let (second, third) = others.split_at(2 * 4 * 3);
    assert!(second.iter().all(|message| message.queue == 1 && message.group >= 1));
    assert!(third.iter().all(|message| message.queue >= 2 && message.group >= 3));
}

#[test]
fn every_model_is_a_plan() {
    for (name, _, _) in MODELS {
        let text =
            format!("model = \"{name}\"\n[[workload]]\npermutation = {{ bytes = \"1 KB\" }}\n");
        assert_eq!(plan(&text).unwrap().topology.nics.len(), 128, "{name}");
    }
}

#[test]
fn paths_follow_the_switches_unless_they_are_named() {
    let paths = |more: &str| {
        let text = format!("[[workload]]\nring = {{ bytes = \"1 KB\" }}\n{more}");
        plan(&text).unwrap().host.paths
    };
    assert_eq!(paths(""), Paths::Hashed(256));
    assert_eq!(paths("[network]\nswitch = \"source\"\n"), Paths::Source);
    let both = "[network]\nswitch = \"source\"\n[hosts]\npaths = \"hashed:8\"\n";
    assert_eq!(paths(both), Paths::Hashed(8));
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    for (line, instead, part) in [
        ("buffer", "buffer = { per_port = \"1 MB\", shared = \"1 MB\" }", "either `per_port` or"),
        ("buffer", "buffer = { per_port = \"1 packets\", alpha = 2.0 }", "either `per_port` or"),
        ("marking", "marking = { low = \"2 KB\", high = \"1 KB\" }", "swap them"),
        ("pause", "pause = { stop = \"1 KB\", go = \"2 KB\" }", "lower `go`"),
        ("share =", "share = \"0 %\"", "give 0.1 % to 100 %"),
        ("ack_every", "ack_every = 0", "give 1 to 1024"),
        ("window", "window = 5000", "give 1 to 4096"),
        ("max_rto", "max_rto = \"1 us\"", "the shorter first"),
        ("until", "until = \"0.5 us\"", "raise `until`"),
        ("rate = \"10 ", "rate = \"401 Gb/s\"", "lower `rate`"),
        ("count", "count = 17", "17 cables cannot fail in a layer that has 16"),
        ("groups = 2", "groups = 3", "give a divisor of 8"),
        ("permutation", "permutation = { bytes = \"0 B\" }", "give 1 to"),
        ("quantum", "quantum = 0", "give 1 to 512, the window"),
        ("quantum", "quantum = 513", "give 1 to 512, the window"),
        ("destination_groups", "destination_groups = [[0, 1], []]", "name its hosts"),
        ("destination_groups", "destination_groups = [[0, 1], [1, 2]]", "name it once"),
        ("destination_groups", "destination_groups = [[8]]", "numbered from 0"),
        ("limit", "profile = \"sold\"", "known names: model, shipped"),
        ("range", "range = [7, 6]", "give the first and the last of 0 to 7"),
        ("range", "range = [6, 8]", "give the first and the last of 0 to 7"),
        ("poisson", "poisson = { load = \"0 %\" }", "more than 0 %, up to 100 %"),
        ("poisson", "poisson = { load = \"9 %\", duration = \"1 us\" }", "web-search, data-mining"),
        (
            "poisson",
            "poisson = { load = \"9 %\", duration = \"1 us\", sizes = \"web\" }",
            "no distribution of sizes is called `web`",
        ),
        (
            "poisson",
            "poisson = { load = \"9 %\", duration = \"1 ps\", sizes = \"hadoop\" }",
            "no message starts: 0.000 were expected; raise `load` or `duration`",
        ),
        ("direction", "convergence = \"1 us\"", "leave out `convergence`"),
        ("loss =", "", "a cut takes both directions; remove `direction`"),
        ("limit", "sample = \"0 us\"", "give at least 10 us"),
        ("direction", "direction = \"left\"", "known names: up, down"),
    ] {
        let old = WHOLE.lines().find(|text| text.contains(line)).expect("a line of the text");
        let error = plan(&WHOLE.replace(old, instead)).unwrap_err();
        assert!(error.what.contains(part), "{error}");
        assert!(error.line.is_some_and(|at| at <= line_of(line)), "{error}");
    }
}

#[test]
fn interfaces_are_named_once() {
    let second = "[[interfaces]]\nrange = [0, 6]\nrate = \"1 Gb/s\"\n\n[network]";
    let error = plan(&WHOLE.replace("[network]", second)).unwrap_err();
    assert!(error.what.contains("range = [0, 6] overlaps with [6, 7]"), "{error}");
    assert_eq!(error.line, Some(line_of("[network]")));
}

#[test]
fn groups_of_destinations_need_sharing_by_host() {
    let error = plan(&WHOLE.replace("sharing = \"host\"", "sharing = \"edge\"")).unwrap_err();
    assert!(error.what.contains("add sharing = \"host\""), "{error}");
    assert_eq!(error.line, Some(line_of("destination_groups")));
}

/// Messages of a load, with a file of sizes.
#[test]
fn sizes_are_read_from_the_file_that_is_named() {
    let poisson = |keys: &str| {
        let text =
            format!("[[workload]]\npoisson = {{ load = \"5 %\", duration = \"9 us\", {keys} }}\n");
        let open = |name: &str| match name {
            "fixed.csv" => Ok(("dir/fixed.csv".to_owned(), "bytes,percent\n77,100".into())),
            _ => Ok(("dir/odd.csv".to_owned(), "100,10\n50,100".into())),
        };
        Scenario::parse("test.toml", &text, &open)
    };
    let plan = poisson("file = \"fixed.csv\"").unwrap().plan(1).unwrap();
    assert!(plan.workload.messages.iter().all(|message| message.bytes == 77));
    let both = poisson("file = \"fixed.csv\", sizes = \"hadoop\"").unwrap().plan(1).unwrap_err();
    assert_eq!((both.line, both.what.contains("remove one")), (Some(1), true), "{both}");
    let odd = poisson("file = \"odd.csv\"").unwrap_err().to_string();
    assert_eq!(
        odd,
        "dir/odd.csv:2: 50 bytes come after 100; sort the lines by size, each size once"
    );
}

/// A scenario with a part cut out, some characters exchanged, and text inserted: mostly rejected.
fn mangled() -> impl Strategy<Value = String> {
    let end = WHOLE.len();
    let bytes = prop::sample::select(b"\"=[]{}.,-#xa0 \n".to_vec());
    let exchange = prop::collection::vec((0..end, bytes), 0..6);
    (0..end, 0..60_usize, exchange, "[ -/:-~\n]{0,12}").prop_map(move |(at, cut, exchange, put)| {
        let mut text = WHOLE.as_bytes().to_vec();
        exchange.into_iter().for_each(|(at, by)| text[at] = by);
        text.splice(at..(at + cut).min(end), put.bytes());
        String::from_utf8(text).expect("all of it is ASCII")
    })
}

/// A scenario without some of its lines and with another number in one: often accepted.
fn edited() -> impl Strategy<Value = String> {
    let lines = WHOLE.lines().count();
    let without = prop::collection::btree_set(0..lines, 0..4);
    (without, 0..lines, 0..200_u32).prop_map(|(without, at, number)| {
        let kept = WHOLE.lines().enumerate().filter(|(line, _)| !without.contains(line));
        let line = |(line, text): (usize, &str)| match text.find(|c: char| c.is_ascii_digit()) {
            Some(digit) if line == at => {
                let rest = text[digit..].trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{}{number}{rest}", &text[..digit])
            }
            _ => text.to_owned(),
        };
        kept.map(line).collect::<Vec<_>>().join("\n")
    })
}

fn mutated() -> impl Strategy<Value = String> {
    prop_oneof![mangled(), edited()]
}

proptest! {
    #[test]
    fn random_text_is_refused(text in "\\PC{0,200}") {
        if let Err(error) = plan(&text) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn a_mutated_scenario_is_planned_or_refused_in_one_line(text in mutated()) {
        if let Err(error) = plan(&text) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
            let lines = 1 + text.lines().count();
            prop_assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{}", error);
        }
    }

    /// A plan can also be started.
    #[test]
    fn a_mutated_scenario_that_is_planned_starts(text in mutated()) {
        let is_small =
            |plan: &Plan| plan.topology.nics.len() <= 64 && plan.workload.messages.len() <= 10_000;
        if let Some(plan) = plan(&text).ok().filter(is_small) {
            let mut run = crate::simulation::Simulation::new(plan);
            for _ in 0..200 {
                if run.is_done() || run.step().is_err() {
                    break;
                }
            }
        }
    }
}

const RAILS: &str = r#"
profile = "shipped"

[topology.rail_optimised]
hosts = 4
rails = 2
spines = 2
rate = "100 Gb/s"
delay = "1 us"

[[workload]]
all_to_all = { bytes = "100 KB" }

[hosts]
health = true

[rails]
"#;

/// Runs a scenario to its end. Returns the bytes that each interface has sent.
fn sent(text: &str) -> Vec<u64> {
    let mut run = crate::simulation::Simulation::new(plan(text).unwrap());
    run.run().unwrap();
    run.hosts.nic_loads().map(|load| load.sent).collect()
}

#[test]
fn the_shipped_profile_is_what_the_engine_configures() {
    use braid_transport::{EndpointConfig, QpConfig};

    use crate::host::{DataPath, Recovery, Sharing};

    let host = plan(RAILS).unwrap().host;
    assert_eq!(host, HostConfig { paths: Paths::Hashed(16), ..HostConfig::shipped() });
    let qp = QpConfig::default();
    assert_eq!((host.batch.packets, host.batch.bytes), (64, EndpointConfig::GSO_BYTES));
    assert_eq!(host.quantum, None);
    assert_eq!((host.sharing, host.data_path), (Sharing::Host, DataPath::Aligned));
    assert_eq!((host.min_rto, host.ack_every), (qp.min_rto, qp.ask_every));
    assert_eq!(host.recovery, Recovery::Protocol(qp.recovery));
    assert!(host.health && host.cc == qp.cc && host.lb == braid_lb::LbPolicy::default());
    let changed = RAILS.replace("health = true", "lb = \"pro\"\nack_every = 1");
    let changed = plan(&changed).unwrap().host;
    let expected = HostConfig { lb: braid_lb::LbPolicy::PRO, ack_every: 1, ..host };
    assert_eq!(changed, expected, "keys change single values of the profile");
}

#[test]
fn rails_are_used_as_their_keys_say() {
    let with = |keys: &str| format!("{RAILS}{keys}");
    let one = |keys: &str| {
        let text = with(keys).replace("all_to_all", "incast");
        sent(&text.replace("100 KB", "1 MB"))
    };
    // Interface 0 receives from all others; only the hosts 1 to 3 have two rails towards it.
    let own = one("data_path = \"own\"\n");
    assert!(own[1..].iter().all(|sent| *sent >= 1_000_000), "{own:?}");
    let any = one("data_path = \"any-sender\"\npolicy = \"round-robin\"\n");
    assert_ne!(own, any);
    let planned = one("plan = \"10 KB\"\n");
    assert!(planned[2..].iter().all(|sent| sent.abs_diff(1_000_000) < 50_000), "{planned:?}");
    let linked = plan(&with("plan = \"10 KB\"\nnvlink = \"400 Gb/s\"\n")).unwrap();
    let nvlink = linked.host.nvlink.expect("the key is given");
    assert_eq!(nvlink.rate, crate::time::Rate::from_gbps(400));
    assert_eq!(nvlink.gpus.len(), linked.workload.messages.len());
    assert!(nvlink.gpus.contains(&(0, 3)));
}

#[test]
fn rails_that_cannot_be_are_refused_at_their_line() {
    let lines = RAILS.lines().count();
    for (keys, part) in [
        ("plan = \"0 B\"", "as in \"32 KiB\""),
        ("plan = \"1 KB\"\npolicy = \"lpt\"", "remove data_path and policy"),
        ("send_queue = \"0 B\"", "give at least 1 B"),
        ("policy = \"best\"", "unknown rail policy"),
        ("data_path = \"both\"", "known names: own, any-sender, aligned"),
        ("nvlink = \"0 Gb/s\"", "out of range"),
    ] {
        let error = plan(&format!("{RAILS}{keys}\n")).unwrap_err();
        assert!(error.what.contains(part), "{error}");
        assert_eq!(error.line, Some(lines + 1), "{error}");
    }
    let waits = RAILS.replace("all_to_all", "ring_all_reduce") + "plan = \"1 KB\"\n";
    let error = plan(&waits).unwrap_err();
    assert!(error.what.contains("cannot plan their rails"), "{error}");
    assert_eq!(error.line, Some(lines + 1));
    let single = plan(&format!("{WHOLE}\n[rails]\npolicy = \"lpt\"\n")).unwrap_err();
    assert!(single.what.contains("these have 1; give topology.rail_optimised"), "{single}");
    assert_eq!(single.line, Some(WHOLE.lines().count() + 3));
    let many = RAILS.replace("rails = 2", "rails = 9");
    assert!(plan(&many).unwrap_err().what.contains("8 is the limit"));
}
