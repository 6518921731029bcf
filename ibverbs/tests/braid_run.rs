//! `braid-run` finds its libraries where they are built, and where they are installed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A prefix whose `bin` contains `braid-run` only.
fn prefix(name: &str) -> PathBuf {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&prefix);
    fs::create_dir_all(prefix.join("bin")).expect("a folder for the test");
    // A link, because a copy cannot start while a child of another test has it open for writing.
    fs::hard_link(env!("CARGO_BIN_EXE_braid-run"), prefix.join("bin/braid-run")).expect("a link");
    prefix
}

/// The user nobody, who owns nothing.
const OTHER: u32 = 65_534;
const LIBRARIES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libbraid_preload.so"];

/// Copies a program by another process. A program cannot be started while it is open for writing,
/// and what other tests start meanwhile has this process' descriptors until it runs its program.
fn copy(from: &str, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status().expect("coreutils");
    assert!(status.success());
}

/// Files that stand in for the libraries, and cannot be loaded.
fn libraries(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder for the test");
    for library in LIBRARIES {
        fs::write(folder.join(library), "").expect("a file for the test");
    }
}

fn run(prefix: &Path) -> Output {
    start(prefix, &["/bin/sh", "-c", "echo $LD_LIBRARY_PATH"], "")
}

fn start(prefix: &Path, program: &[&str], preload: &str) -> Output {
    let mut command = Command::new(prefix.join("bin/braid-run"));
    command.arg("--quiet").args(program).env("LD_PRELOAD", preload);
    command.env_remove("LD_LIBRARY_PATH").output().expect("it starts")
}

/// The output of `braid-run` about a program, without that of the program.
fn warning(prefix: &Path, program: &Path) -> String {
    let program = program.to_str().expect("a path of ours");
    let says = start(prefix, &[program], "").stderr;
    let says = String::from_utf8_lossy(&says);
    let own: Vec<_> = says.lines().filter(|line| line.starts_with("braid-run: ")).collect();
    own.join("\n")
}

#[test]
fn the_libraries_are_beside_it_or_in_lib_braid() {
    let prefix = prefix("braid-run-places");
    for folder in ["lib/braid", "bin/drop-in"] {
        libraries(&prefix.join(folder));
        let output = run(&prefix);
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{says}");
        let path = String::from_utf8_lossy(&output.stdout);
        assert_eq!(Path::new(path.trim()), prefix.join(folder));
    }
}

#[test]
fn missing_libraries_are_reported_with_the_places_and_a_remedy() {
    let prefix = prefix("braid-run-alone");
    let output = run(&prefix);
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    for words in ["bin/drop-in", "lib/braid", "cargo xtask drop-in", "cargo xtask install"] {
        assert!(says.contains(words), "{says}");
    }
    assert_eq!(says.trim_end().lines().count(), 1, "{says}");
}

#[test]
fn the_libraries_are_preloaded_before_what_was_and_once() {
    let prefix = prefix("braid-run-preload");
    let folder = prefix.join("lib/braid");
    libraries(&folder);
    let ours: Vec<String> =
        LIBRARIES.iter().map(|library| folder.join(library).display().to_string()).collect();
    let before = format!("{} libc.so.6", ours[0]);
    let output = start(&prefix, &["/bin/sh", "-c", "echo $LD_PRELOAD"], &before);
    let preload = String::from_utf8_lossy(&output.stdout);
    assert_eq!(preload.trim(), format!("{}:libc.so.6", ours.join(":")));
}

#[test]
fn a_static_program_is_named_with_a_remedy() {
    let prefix = prefix("braid-run-static");
    libraries(&prefix.join("lib/braid"));
    let (source, program) = (prefix.join("static.c"), prefix.join("static"));
    fs::write(&source, "int main(void) { return 0; }").expect("a file for the test");
    let mut cc = Command::new("cc");
    let compiled = cc.arg("-static").arg(&source).arg("-o").arg(&program).status();
    assert!(compiled.expect("a C compiler").success());
    let said = warning(&prefix, &program);
    assert!(said.contains("is linked statically") && said.contains("dynamically"), "{said}");
    // A script is reached if its interpreter is.
    let script = prefix.join("script");
    fs::write(&script, format!("#!{} -x\n", program.display())).expect("a file for the test");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("ours to change");
    assert_eq!(warning(&prefix, &script), said);
    assert_eq!(warning(&prefix, Path::new("/bin/true")), "");
    assert_eq!(warning(&prefix, Path::new("true")), "");
}

/// The user of the test may be root, for whom `su` changes nothing. So the program gets another
/// owner.
#[test]
fn a_program_that_changes_its_user_is_named_with_a_remedy() {
    let prefix = prefix("braid-run-setuid");
    libraries(&prefix.join("lib/braid"));
    let program = prefix.join("setuid");
    copy("/bin/true", &program);
    let is_root = chown(&program, Some(OTHER), None).is_ok();
    let program = if is_root { program } else { "/bin/su".into() };
    if is_root {
        assert_eq!(warning(&prefix, &program), "");
        fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).expect("ours to change");
    }
    let said = warning(&prefix, &program);
    let owner = if is_root { OTHER } else { 0 };
    assert!(said.contains("is setuid") && said.contains(&format!("as user {owner}")), "{said}");
}

/// Linux gives programs of root all capabilities. So this one belongs to another user, in a folder
/// that the user can read.
#[test]
fn a_program_with_file_capabilities_is_named_with_a_remedy() {
    let prefix = std::env::temp_dir().join(format!("braid-run-capable-{}", std::process::id()));
    libraries(&prefix.join("lib/braid"));
    let (program, own) = (prefix.join("capable"), prefix.join("braid-run"));
    copy("/bin/true", &program);
    copy(env!("CARGO_BIN_EXE_braid-run"), &own);
    fs::create_dir_all(prefix.join("bin")).expect("a folder for the test");
    fs::rename(&own, prefix.join("bin/braid-run")).expect("ours to move");
    let capable = Command::new("setcap").arg("cap_net_raw+ep").arg(&program).status();
    if capable.is_ok_and(|status| status.success()) {
        let mut command = Command::new(prefix.join("bin/braid-run"));
        command.arg("--quiet").arg(&program).uid(OTHER).gid(OTHER);
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("has file capabilities") && said.contains("a copy"), "{said}");
    } else {
        assert!(chown(&program, Some(OTHER), None).is_err(), "root sets capabilities");
    }
    fs::remove_dir_all(&prefix).expect("ours to remove");
}
