//! Compares the declarations of `abi` with `infiniband/verbs.h`: with the system's header if there
//! is one, and with the C compiler's values for rdma-core 44 on x86-64. Those are kept in
//! `rdma-core-44.txt`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use braid_verbs::abi::{
    CONSTANTS, CType, EXPRESSIONS, EXTENDED_LAYOUTS, Extent, FUNCTIONS, Function, LAYOUTS, PollCq,
    PostRecv, PostSend, PostSrqRecv, QueryPort, ReqNotifyCq,
};

const KEPT: &str = include_str!("rdma-core-44.txt");
const HEADERS: &str = "/usr/include/infiniband";

/// Returns C expressions that are integers, and the values of our declarations.
fn declared() -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for layout in LAYOUTS.iter().chain(EXTENDED_LAYOUTS) {
        let name = layout.name;
        if layout.extent == Extent::Whole {
            all.push((format!("sizeof({name})"), layout.size));
        }
        for (field, offset, size) in layout.fields {
            all.push((format!("offsetof({name}, {field})"), *offset));
            all.push((format!("sizeof((({name} *)0)->{field})"), *size));
        }
    }
    all.extend(EXPRESSIONS.iter().map(|(expression, value)| ((*expression).into(), *value)));
    all.extend(CONSTANTS.iter().map(|(name, value)| ((*name).into(), *value as usize)));
    all
}

/// Returns C expressions that are functions, and the prototypes of our declarations.
fn prototypes() -> Vec<(String, String)> {
    let of = |f: &Function| (format!("&{}", f.name), (f.declare)(""));
    let member = |of: &str, name: &str, prototype: String| {
        (format!("((struct {of} *)0)->{name}"), prototype)
    };
    let ops = |name: &str, prototype: String| member("ibv_context_ops", name, prototype);
    let mut all: Vec<(String, String)> = FUNCTIONS.iter().map(of).collect();
    all.push(ops("poll_cq", PollCq::declare("")));
    all.push(ops("req_notify_cq", ReqNotifyCq::declare("")));
    all.push(ops("post_send", PostSend::declare("")));
    all.push(ops("post_recv", PostRecv::declare("")));
    all.push(ops("post_srq_recv", PostSrqRecv::declare("")));
    all.push(member("verbs_context", "query_port", QueryPort::declare("")));
    all
}

/// Returns a C program that prints each expression and its value, and does not compile if a
/// prototype differs.
fn program(declared: &[(String, usize)], prototypes: &[(String, String)]) -> String {
    let mut c = String::from(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\
         #include <infiniband/verbs.h>\n",
    );
    for (function, prototype) in prototypes {
        let same = format!("__builtin_types_compatible_p(__typeof__({function}), {prototype})");
        writeln!(c, "_Static_assert({same}, \"{function} is not {prototype}\");").expect("memory");
    }
    c.push_str("int main(void) {\n");
    for (expression, _) in declared {
        writeln!(c, "printf(\"%s = %zu\\n\", \"{expression}\", (size_t)({expression}));")
            .expect("memory");
    }
    c.push_str("}\n");
    c
}

fn lines(declared: &[(String, usize)]) -> String {
    declared.iter().fold(String::new(), |text, (expression, value)| {
        text + &format!("{expression} = {value}\n")
    })
}

/// Returns the lines in which both differ, so that a failure is readable.
fn differences(ours: &str, theirs: &str) -> Vec<String> {
    let differing = |(a, b): (&str, &str)| (a != b).then(|| format!("here {a}, in C {b}"));
    let mut found: Vec<String> = ours.lines().zip(theirs.lines()).filter_map(differing).collect();
    if ours.lines().count() != theirs.lines().count() {
        found.push("different numbers of lines".into());
    }
    found
}

fn compile_and_run(source: &str) -> String {
    let folder = scratch();
    let (file, binary) = (folder.join("drift.c"), folder.join("drift"));
    fs::write(&file, source).expect("the scratch folder is writable");
    let out = Command::new("cc").arg("-std=gnu11").arg("-o").args([&binary, &file]).output();
    let out = out.expect("cc runs");
    assert!(
        out.status.success(),
        "what is declared here does not fit the headers:\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let run = Command::new(&binary).output().expect("it runs");
    assert!(run.status.success(), "the C program ended with {}", run.status);
    String::from_utf8(run.stdout).expect("it prints ASCII")
}

fn scratch() -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drift-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
    folder
}

/// Returns why a comparison is impossible: no headers or no compiler.
fn missing() -> Option<&'static str> {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    match () {
        () if !Path::new(HEADERS).join("verbs.h").exists() => {
            Some("no headers of libibverbs here (apt-get install libibverbs-dev)")
        }
        () if !runs("cc") => Some("no C compiler here"),
        () => None,
    }
}

/// With `BRAID_KEEP_ABI` set, the values of the C compiler are kept for the test below.
#[test]
fn the_abi_is_that_of_the_systems_headers() {
    let declared = declared();
    if let Some(reason) = missing() {
        // Written directly, because the test harness captures the output of macros.
        let _ = writeln!(io::stderr(), "drift: {reason}; only the kept values are compared");
        return;
    }
    let theirs = compile_and_run(&program(&declared, &prototypes()));
    if env::var_os("BRAID_KEEP_ABI").is_some() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rdma-core-44.txt");
        fs::write(kept, &theirs).expect("the file is writable");
    }
    assert_eq!(differences(&lines(&declared), &theirs), Vec::<String>::new());
}

/// This test needs neither headers nor a compiler.
#[test]
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
fn the_abi_is_that_of_rdma_core_44() {
    assert!(KEPT.lines().count() > 300, "{} lines are not all of it", KEPT.lines().count());
    assert_eq!(differences(&lines(&declared()), KEPT), Vec::<String>::new());
}

#[test]
fn a_difference_is_found() {
    assert_eq!(differences("a = 1\nb = 2\n", "a = 1\nb = 3\n"), ["here b = 2, in C b = 3"]);
    assert_eq!(differences("a = 1\n", ""), ["different numbers of lines"]);
}
