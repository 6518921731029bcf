//! `braid-perf info`: its output matches this machine.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

fn info(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    let output = command.arg("info").args(args).stdin(Stdio::null()).output();
    let output = output.expect("braid-perf starts");
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{says}");
    String::from_utf8(output.stdout).expect("it is text")
}

fn json() -> Value {
    serde_json::from_str(&info(&["--json"])).expect("it is JSON, and nothing else")
}

/// Returns the element of a list whose `key` is `value`.
fn find<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = list.as_array().expect("a list").iter().find(|element| element[key] == value);
    found.unwrap_or_else(|| panic!("{value} is not in {list}"))
}

fn names(list: &Value) -> Vec<&str> {
    let name = |element: &'_ Value| element["name"].as_str().map(str::len);
    assert!(list.as_array().expect("a list").iter().all(|element| name(element).is_some()));
    list.as_array().into_iter().flatten().filter_map(|element| element["name"].as_str()).collect()
}

/// Returns the choice that is marked as the default.
fn default(list: &Value) -> &str {
    let all = list.as_array().expect("a list");
    let defaults: Vec<_> = all.iter().filter(|choice| choice["default"] == true).collect();
    assert_eq!(defaults.len(), 1, "{list}");
    defaults[0]["name"].as_str().expect("a name")
}

#[test]
fn interfaces_are_those_of_this_machine() {
    let json = json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    let folders = fs::read_dir("/sys/class/net").expect("Linux has it");
    for folder in folders.map(|folder| folder.expect("a folder")) {
        let Ok(mtu) = fs::read_to_string(folder.path().join("mtu")) else { continue };
        let mtu: u64 = mtu.trim().parse().expect("a number");
        let name = folder.file_name().into_string().expect("plain letters");
        assert_eq!(find(&json["interfaces"], "name", &name)["mtu"], mtu, "{name}");
    }
    let addresses = &find(&json["interfaces"], "name", "lo")["addresses"];
    assert!(addresses.as_array().expect("a list").contains(&"127.0.0.1".into()), "{addresses}");
}

#[test]
fn udp_offers_match_this_kernel() {
    let json = json();
    let offers = &find(&json["datapaths"], "name", "udp")["offers"];
    assert_eq!(
        (&offers["gso"], &offers["gro"]),
        (&true.into(), &true.into()),
        "Linux 5.0 or later"
    );
    assert!(offers["batch_segments"].as_u64() > Some(1), "{offers}");
    let [asked, granted] = ["receive_buffer_asked_bytes", "receive_buffer_bytes"]
        .map(|name| offers[name].as_u64().expect("a number"));
    assert_eq!(asked, find(&json["defaults"], "name", "receive_buffer_bytes")["value"]);
    let limit = json["system"]["rmem_max"].as_u64().expect("Linux has it");
    assert!((limit.min(asked)..=asked).contains(&granted), "{granted} of {asked}, limit {limit}");
}

#[test]
fn a_datapath_without_a_device_says_why_it_cannot_be_used() {
    let json = json();
    if json["rdma_devices"].as_array().expect("a list").is_empty() {
        let verbs = find(&json["datapaths"], "name", "verbs");
        let why = verbs["unavailable"].as_str().expect("it says why");
        assert!(why.contains("no RDMA device"), "{why}");
    }
}

#[test]
fn every_name_is_one_that_the_options_take() {
    let json = json();
    for (list, option) in [
        ("path_policies", "--lb"),
        ("rail_policies", "--rail-policy"),
        ("controllers", "--cc"),
        ("loss_recoveries", "--loss-recovery"),
    ] {
        for choice in json[list].as_array().expect("a list") {
            let text = choice["example"].as_str().or(choice["name"].as_str()).expect("a name");
            let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
            let status = command
                .args(["write-bw", "--loopback", "--datapath", "mem", "-n", "1", option, text])
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("braid-perf starts").success(), "{option} {text}");
        }
    }
}

#[test]
fn the_defaults_are_those_that_are_marked() {
    let json = json();
    let setting = |name| find(&json["defaults"], "name", name);
    assert_eq!(setting("lb")["value"], default(&json["path_policies"]));
    assert_eq!(setting("rail_policy")["value"], default(&json["rail_policies"]));
    assert_eq!(setting("loss_recovery")["value"], default(&json["loss_recoveries"]));
    let cc = setting("cc")["value"].as_str().expect("a name");
    assert!(cc.starts_with(default(&json["controllers"])), "{cc}");
    assert_eq!(
        (&setting("lb")["from"], &setting("lb")["option"]),
        (&"EngineConfig".into(), &"--lb".into())
    );
    assert_eq!(setting("progress")["from"], "braid-perf");
}

#[test]
fn the_text_says_the_same_and_a_file_gets_the_json_besides() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("info.json");
    let text = info(&["--json", file.to_str().expect("plain letters")]);
    let json: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("it is there")).expect("it is JSON");
    assert!(text.starts_with(&format!("braid-perf {}", env!("CARGO_PKG_VERSION"))), "{text}");
    for list in [
        "interfaces",
        "datapaths",
        "path_policies",
        "rail_policies",
        "controllers",
        "loss_recoveries",
        "defaults",
    ] {
        for name in names(&json[list]) {
            assert!(text.contains(name), "{name} of {list} is not in\n{text}");
        }
    }
}
