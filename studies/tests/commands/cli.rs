//! `braid-sim` as a user runs it: every example, its output, and its reproducibility.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The keys that `--json` guarantees.
const PROMISED: &[&str] = &[
    "cct_us",
    "lower_bound_us",
    "slowdown",
    "max_queue_packets",
    "max_queue_packets_by_layer",
    "data_packets",
    "retransmissions",
    "spurious_share",
    "trims",
    "drops",
    "ecn_marks",
    "pauses",
    "ooo_p99",
    "events",
    "cpu_s",
    "peak_rss_mb",
    "packets_per_cpu_s",
];

/// The keys that depend on the machine.
const COSTS: &[&str] = &["cpu_s", "peak_rss_mb", "packets_per_cpu_s"];

fn braid_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braid-sim")).args(args).output().expect("braid-sim starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of the tests is text")
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios");
    let entries = fs::read_dir(folder).expect("the examples are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios").join(name)
}

/// Creates an empty folder for this test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs with `--json`, and removes the keys that depend on the machine.
fn results(args: &[&str], folder: &Path) -> Value {
    let json = folder.join("results.json");
    let done = braid_sim(&[args, &["--json", text(&json)]].concat());
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{args:?}:\n{said}");
    let read = fs::read_to_string(&json).expect("--json writes the file");
    serde_json::from_str(&read).expect("--json writes JSON")
}

fn without_costs(mut of: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|key, _| !COSTS.contains(&key.as_str()));
                map.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut of);
    of
}

#[test]
fn every_example_runs_and_keeps_to_its_bound() {
    let folder = scratch("examples");
    let files = examples();
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        let result = results(&["run", text(&file)], &folder);
        for key in PROMISED {
            assert!(!result[key].is_null(), "{}: no {key}", file.display());
        }
        let slowdown = result["slowdown"].as_f64().expect("a number");
        assert!(slowdown >= 1.0, "{}: {slowdown} times the lower bound", file.display());
        let about = result["about"].as_str().expect("text");
        assert!(!about.is_empty(), "{} does not say what it shows", file.display());
    }
}

#[test]
fn examples_show_what_they_are_for() {
    let folder = scratch("show");
    let of = |name: &str| results(&["run", text(&example(name))], &folder);
    let number = |result: &Value, key: &str| result[key].as_u64().expect("a count");
    let trimmed = of("incast-trim.toml");
    assert!(number(&trimmed, "trims") > 0 && trimmed["drops"]["total"] == 0, "{trimmed}");
    // The first window overflows the queue, and hardly anything after it: 8 times 225 packets less
    // the queue. The constant window of the model trims 53,000.
    let controlled = of("incast-nscc.toml");
    let trims = number(&controlled, "trims");
    assert!((1..2000).contains(&trims) && controlled["slowdown"].as_f64() < Some(1.05));
    // The first window overflows the queue, and nothing after it: 8 times 150 packets less the
    // queue and what leaves it meanwhile. All messages end together.
    let credited = of("incast-rccc.toml");
    assert!((1..1000).contains(&number(&credited, "trims")), "{credited}");
    let (mean, max) = (&credited["message_us"]["mean"], &credited["message_us"]["max"]);
    assert!(mean.as_f64() > max.as_f64().map(|max| 0.98 * max), "{credited}");
    assert!(credited["slowdown"].as_f64() < Some(1.07) && number(&credited, "timeouts") == 0);
    let paused = of("incast-pause.toml");
    assert!(number(&paused, "pauses") > 0 && paused["drops"]["total"] == 0, "{paused}");
    let marked = of("incast-dcqcn.toml");
    assert!(number(&marked, "ecn_marks") > 0, "{marked}");
    let failed = of("link-failure.toml");
    assert!(failed["drops"]["link_down"].as_u64() > Some(0), "{failed}");
    assert_eq!(failed["drops"]["total"], failed["drops"]["link_down"]);
    let (ofan, ecmp) = (of("permutation-ofan.toml"), of("permutation-ecmp.toml"));
    assert!(ofan["slowdown"].as_f64() < Some(1.1) && ecmp["slowdown"].as_f64() > Some(1.3));
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_one_another() {
    let folder = scratch("repeat");
    for name in ["permutation-oblivious.toml", "link-failure.toml", "incast-trim.toml"] {
        let file = example(name);
        let run = |seed| {
            let args = ["run", text(&file), "--seed", seed, "--runs", "1"];
            without_costs(results(&args, &folder))
        };
        assert_eq!(run("7"), run("7"), "{name}");
        assert_ne!(run("7")["events"], run("8")["events"], "{name}");
    }
}

/// The examples of one name differ in policies only, so that their results can be compared.
#[test]
fn permutations_are_the_same_on_the_same_fabric() {
    let folder = scratch("permutations");
    let set_up = |file: &PathBuf| {
        let result = results(&["run", text(file)], &folder);
        let keys = ["model", "hosts", "switches", "messages", "bytes", "lower_bound_us", "seed"];
        let runs = result["runs"].as_array().map(Vec::len);
        (keys.map(|key| result[key].clone()), runs)
    };
    let all = examples().into_iter().filter(|file| text(file).contains("permutation-"));
    let all: Vec<_> = all.map(|file| (set_up(&file), file)).collect();
    assert!(all.len() > 5, "{all:?}");
    for (set_up, file) in &all {
        assert_eq!(*set_up, all[0].0, "{}", file.display());
    }
}

#[test]
fn several_seeds_give_each_run_and_the_spread() {
    let folder = scratch("seeds");
    let file = example("permutation-oblivious.toml");
    let all = results(&["run", text(&file), "--seed", "5", "--runs", "4"], &folder);
    let runs = all["runs"].as_array().expect("a list");
    let seeds: Vec<u64> = runs.iter().filter_map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [5, 6, 7, 8]);
    let times: Vec<f64> = runs.iter().filter_map(|run| run["cct_us"].as_f64()).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    assert!(least < most, "{times:?}");
    assert_eq!(all["min"]["cct_us"], least);
    assert_eq!(all["max"]["cct_us"], most);
    let mean = all["cct_us"].as_f64().expect("a number");
    assert!((mean - times.iter().sum::<f64>() / 4.0).abs() < 1e-9);
    let alone = results(&["run", text(&file), "--seed", "6", "--runs", "1"], &folder);
    assert_eq!(without_costs(runs[1].clone()), without_costs(alone["runs"][0].clone()));
}

#[test]
fn out_leaves_report_table_and_messages() {
    let folder = scratch("out");
    let done = braid_sim(&["run", text(&example("matrix.toml")), "--out", text(&folder)]);
    assert!(done.status.success());
    let table = fs::read_to_string(folder.join("table.txt")).expect("a table");
    assert_eq!(table, String::from_utf8_lossy(&done.stdout));
    let messages = fs::read_to_string(folder.join("messages-1.csv")).expect("messages");
    let mut lines = messages.lines();
    let heading = "message,src,dst,bytes,queue,group,posted_us,delivered_us,acknowledged_us";
    assert_eq!(lines.next(), Some(heading));
    assert_eq!(lines.count(), 16);
    let report = fs::read_to_string(folder.join("report.json")).expect("a report");
    assert_eq!(serde_json::from_str::<Value>(&report).expect("JSON")["messages"], 16);
}

#[test]
fn several_scenarios_have_a_line_and_a_folder_each() {
    let folder = scratch("several");
    let (a, b) = (example("matrix.toml"), example("incast-trim.toml"));
    let all = results(&["run", text(&a), text(&b), "--out", text(&folder)], &folder);
    let names: Vec<&str> =
        all.as_array().expect("a list").iter().filter_map(|one| one["scenario"].as_str()).collect();
    assert_eq!(names, ["matrix", "incast-trim"]);
    assert!(names.iter().all(|name| folder.join(name).join("report.json").exists()));
}

#[test]
fn a_matrix_runs_on_the_fat_tree_that_fits_it() {
    let folder = scratch("matrix");
    let file = example("shift-16.cm");
    let given = ["matrix", text(&file), "--model", "uec"];
    let usual = results(&given, &folder);
    assert_eq!((&usual["hosts"], &usual["switches"]), (&16.into(), &20.into()));
    assert_eq!((&usual["switch"], &usual["recovery"]), (&"ecmp".into(), &"sack".into()));
    let more = ["--switch", "ofan", "--hosts", "100", "--recovery", "ideal"];
    let changed = results(&[&given[..], &more].concat(), &folder);
    assert_eq!((&changed["hosts"], &changed["switch"]), (&128.into(), &"ofan".into()));
}

#[test]
fn a_matrix_has_the_limit_and_time_outs_of_the_command_line() {
    let file = example("shift-16.cm");
    let refused = |args: &[&str], code: i32, wanted: &str| {
        let done = braid_sim(&[&["matrix", text(&file)], args].concat());
        let says = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{args:?}: {says}");
        assert!(says.contains(wanted), "{args:?}: {says}");
    };
    refused(&["--limit", "1us"], 1, "not delivered after 1 us");
    refused(&["--min-rto", "1 h"], 2, "`h` is not a unit of a time");
    refused(&["--min-rto", "10s"], 2, "min_rto = 10s with max_rto");
    let done = braid_sim(&["matrix", text(&file), "--min-rto", "100us", "--limit", "1s"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_scenario_is_found_by_its_name() {
    let run = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_braid-sim"));
        command.args(["run", name]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        command.output().expect("braid-sim starts")
    };
    for name in ["permutation-pro", "permutation-pro.toml"] {
        let done = run(name);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let done = run("permutation-por");
    let says = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{says}");
    assert!(says.contains("did you mean `permutation-pro`?"), "{says}");
}

#[test]
fn a_run_that_is_about_time_outs_says_so() {
    let folder = scratch("timeouts");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("cut.toml");
    let failing = fs::read_to_string(example("link-failure.toml")).expect("an example");
    let usual = "lb = \"reps\"";
    assert!(failing.contains(usual));
    fs::write(&file, failing.replace(usual, "lb = \"ecmp\"\nrecovery = \"sack\"")).unwrap();
    let says = String::from_utf8(braid_sim(&["run", text(&file)]).stdout).expect("text");
    assert!(says.contains("  time-outs        100 % of the completion time"), "{says}");
    let says = String::from_utf8(braid_sim(&["run", text(&example("link-failure.toml"))]).stdout);
    assert!(!says.expect("text").contains("time-outs"));
}

#[test]
fn a_study_on_the_hosts_that_ship_is_printed_and_written() {
    let folder = scratch("shipped");
    let args = ["reproduce", "rails", "--quick", "--shipped", "--out", text(&folder)];
    let tables = results(&args, &folder);
    let heading = &tables[0]["rows"][0];
    assert_eq!(heading[1], "as shipped, defaults");
    assert_eq!(heading[3], "as in the paper");
    let written = fs::read_to_string(folder.join("rails-shipped.md")).expect("tables");
    assert!(written.contains("| uniform: time / T* |"), "{written}");
}

/// Runs the shortest experiment of a study against a page.
fn check_against(page: &Path) -> Output {
    braid_sim(&["reproduce", "themis", "--only", "memory", "--check", text(page)])
}

#[test]
fn a_page_whose_verdict_was_altered_is_refused() {
    let folder = scratch("page");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reproduction/themis.md");
    let done = check_against(&page);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let written = fs::read_to_string(&page).expect("a page");
    let right = "100 entries, 192.5 KB | reproduced |";
    assert!(written.contains(right), "the page has another claim");
    let altered = folder.join("altered.md");
    let wrong = written.replace(right, "99 entries, 190 KB | differs: too few |");
    fs::write(&altered, wrong).expect("a file for the test");
    let done = check_against(&altered);
    let (said, why) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{said}{why}");
    assert!(why.contains("1 verdicts differ from") && why.contains("altered.md"), "{why}");
    let replay = format!("reproduce themis --only memory --check {}", text(&altered));
    for part in ["table 1", "differs", "99 entries, 190 KB", "reproduced", "192.5 KB", &replay] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
}

#[test]
fn pages_are_of_full_studies_and_name_their_commit() {
    for paper in ["mcc", "rails", "themis"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reproduction");
        let page = fs::read_to_string(folder.join(format!("{paper}.md"))).expect("a page");
        let (_, table) = page.split_once("| commit | seeds | command |").expect("its origin");
        let origin = table.lines().nth(2).expect("a row");
        let commit = origin.split('`').nth(1).expect("a commit");
        assert!(commit.len() == 40 && commit.bytes().all(|of| of.is_ascii_hexdigit()), "{origin}");
        assert!(origin.contains("braid-sim reproduce") && !origin.contains("--quick"), "{origin}");
    }
}

#[test]
fn experiments_are_listed_and_unknown_ones_refused() {
    let folder = scratch("experiments");
    let listed = results(&["reproduce", "pro", "--experiments"], &folder);
    let names: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|of| of["name"].as_str()).collect();
    assert!(names.contains(&"spraying") && listed[0]["cpu_s"].is_u64(), "{listed}");
    let done = braid_sim(&["reproduce", "pro", "--only", "magic"]);
    let why = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{why}");
    assert!(why.contains("`magic`") && why.contains("spraying"), "{why}");
}

#[test]
fn the_bound_holds_where_one_acknowledgement_answers_many_packets() {
    let folder = scratch("bound");
    let file = folder.join("few-acks.toml");
    let scenario = "[topology.fat_tree]\nk = 2\nrate = \"1 Gb/s\"\ndelay = \"1 us\"\n\
                    [network]\nframes = { payload = \"64 B\" }\n[hosts]\nack_every = 64\n\
                    [[workload]]\nring = { bytes = \"100 KB\" }\n";
    fs::write(&file, scenario).expect("a file for the test");
    let slowdown = results(&["run", text(&file)], &folder)["slowdown"].as_f64();
    assert!(slowdown.is_some_and(|slowdown| (1.0..2.0).contains(&slowdown)), "{slowdown:?}");
}

#[test]
fn the_list_names_models_and_policies() {
    let done = braid_sim(&["list"]);
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success());
    for name in ["uec", "round-robin", "min-rtt", "go-back-n", "dcqcn", "ofan"] {
        assert!(said.contains(name), "{name} is missing from\n{said}");
    }
}
