//! Error messages of `braid-sim`: one line with the place and the remedy, and exit status 2.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a scenario from a file of its own. Returns the error without the program's name.
fn refused(name: &str, scenario: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors").join(name);
    fs::create_dir_all(&folder).expect("a folder for the test");
    fs::write(folder.join("four.cm"), "Nodes 4\nConnections 1\n0->9 start 0 size 100\n")
        .expect("a file");
    let file = format!("{name}.toml");
    fs::write(folder.join(&file), scenario).expect("a file for the test");
    let done = Command::new(env!("CARGO_BIN_EXE_braid-sim"))
        .current_dir(&folder)
        .args(["run", &file])
        .output()
        .expect("braid-sim starts");
    let said = String::from_utf8(done.stderr).expect("text");
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(done.stdout.is_empty());
    said.trim_end().strip_prefix("braid-sim: ").expect("the program's name").to_owned()
}

const TREE: &str = "[topology.fat_tree]\nk = 4\nrate = \"1 Gb/s\"\ndelay = \"1 us\"\n";
const SENT: &str = "[[workload]]\nring = { bytes = \"1 KB\" }\n";

#[test]
fn an_unknown_key_is_named_with_those_there_are() {
    let said = refused("key", "name = \"x\"\nspeed = 1\n");
    assert!(
        said.starts_with("key.toml:2: unknown field `speed`, expected one of `name`"),
        "{said}"
    );
    let said = refused("subkey", &format!("{SENT}{TREE}gap = \"1 B\"\n"));
    assert!(said.starts_with("subkey.toml:7: unknown field `gap`"), "{said}");
}

#[test]
fn a_missing_unit_is_named_with_those_there_are() {
    let said = refused("unit", "limit = \"100\"\n");
    assert_eq!(
        said,
        "unit.toml:1: `100` has no unit; write it as in \"1.5 us\" (ps, ns, us, ms, s)"
    );
    let said = refused("bare", "\nlimit = 100\n");
    assert_eq!(said, "bare.toml:2: 100 is not enough for a time; write it as in \"1.5 us\"");
}

#[test]
fn an_unknown_name_is_answered_with_those_there_are() {
    for (key, name, known) in [
        ("lb", "spray", "pro"),
        ("cc", "reno", "dcqcn"),
        ("recovery", "hope", "ideal"),
        ("paths", "many", "hashed:1"),
    ] {
        let said = refused(key, &format!("[hosts]\n{key} = \"{name}\"\n"));
        assert!(said.starts_with(&format!("{key}.toml:2: ")), "{said}");
        assert!(said.contains(&format!("`{name}`")) && said.contains(known), "{said}");
    }
    let said = refused("switch", "[network]\nswitch = \"rr\"\n");
    assert!(said.contains(":2: no switch policy is called `rr`; known names: ecmp"), "{said}");
}

#[test]
fn a_matrix_is_read_as_carefully() {
    let said = refused("names", "[[workload]]\nmatrix = { file = \"four.cm\" }\n");
    assert!(said.starts_with("four.cm:3: node 9 does not exist"), "{said}");
    let said = refused("nofile", "\n[[workload]]\nmatrix = { file = \"none.cm\" }\n");
    assert!(said.starts_with("nofile.toml:2: none.cm: cannot be read"), "{said}");
}

#[test]
fn impossible_scenarios_are_rejected_with_their_line() {
    let said = refused("odd", &format!("{SENT}{}", TREE.replace('4', "7")));
    assert!(said.starts_with("odd.toml:3: a fat tree of switches with k = 7"), "{said}");
    let said = refused("huge", &format!("{SENT}{}", TREE.replace('4', "400")));
    assert!(said.starts_with("huge.toml:3: 16000000 interfaces are too many"), "{said}");
    let far = "members = [[0, 16]]\n";
    let said = refused("far", &format!("{TREE}{SENT}{far}"));
    assert!(said.starts_with("far.toml:5: node 16 does not exist: the topology has 16"), "{said}");
    let said = refused("nothing", TREE);
    assert!(said.starts_with("nothing.toml: nothing is sent; add a [[workload]]"), "{said}");
    let cut = "[[failure]]\ncable = [\"edge 0\", \"edge 1\"]\n";
    let said = refused("cut", &format!("{TREE}{SENT}{cut}"));
    assert!(said.starts_with("cut.toml:7: there is no cable between these two"), "{said}");
}

#[test]
fn a_run_that_does_not_end_is_exit_1() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("late.toml");
    fs::write(&file, format!("limit = \"1 us\"\n{TREE}{SENT}")).expect("a file for the test");
    let done = Command::new(env!("CARGO_BIN_EXE_braid-sim")).arg("run").arg(&file).output();
    let done = done.expect("braid-sim starts");
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        said.contains("16 of 16 messages are not delivered after 1 us; raise `limit`"),
        "{said}"
    );
}

#[test]
fn an_unknown_command_is_answered_with_those_there_are() {
    let done = Command::new(env!("CARGO_BIN_EXE_braid-sim")).arg("simulate").output();
    let done = done.expect("braid-sim starts");
    let said = String::from_utf8(done.stderr).expect("text");
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("list, run, matrix, compare, reproduce"), "{said}");
}
