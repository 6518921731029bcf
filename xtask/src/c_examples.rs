//! `cargo xtask c`: the C library as it is installed, and the C examples.
//!
//! The header compiles as C99 and C++17, and the library exports exactly what the header declares.
//! `man 3` finds a page without errors for every function.
//! Every example is built by gcc and by g++ and runs to its end: alone, under valgrind, and with
//! AddressSanitizer and UndefinedBehaviorSanitizer. All C code in the documentation compiles, and
//! the program `tasks` of its page runs.

mod manual;
mod page;

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::files::{read, write};
use crate::process::{Program, log_to};
use crate::{Failure, install, process, tools, tree};

/// An example takes a second, under valgrind five; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(90);

/// A way to compile the examples.
struct Build {
    name: &'static str,
    compiler: &'static str,
    standard: &'static str,
    flags: &'static str,
    /// Whether the examples run under valgrind too.
    valgrind: bool,
}

const SANITIZED: &str = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all";

const BUILDS: &[Build] = &[
    Build { name: "gcc", compiler: "gcc", standard: "c99", flags: "-O2 -g", valgrind: true },
    Build { name: "g++", compiler: "g++", standard: "c++17", flags: "-O2 -g", valgrind: true },
    Build {
        name: "gcc, ASan",
        compiler: "gcc",
        standard: "c99",
        flags: SANITIZED,
        valgrind: false,
    },
    Build {
        name: "g++, ASan",
        compiler: "g++",
        standard: "c++17",
        flags: SANITIZED,
        valgrind: false,
    },
];

const VALGRIND: &[&str] = &[
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
    "--fair-sched=try",
    "--suppressions=FOLDER/prefix/share/braid/valgrind.supp",
];

/// An example's two processes and what they have to say. ADDR and FOLDER stand for themselves.
struct Example {
    program: &'static str,
    server: &'static [&'static str],
    server_says: &'static str,
    client: &'static [&'static str],
    client_says: &'static [&'static str],
}

const FILE_LEN: usize = 3_000_001;

const EXAMPLES: &[Example] = &[
    Example {
        program: "pingpong",
        server: &["listen", "ADDR"],
        server_says: "",
        client: &["connect", "ADDR"],
        client_says: &["1000 round trips: "],
    },
    Example {
        program: "write",
        server: &["listen", "ADDR"],
        server_says: "on the board: placed by the network",
        client: &["connect", "ADDR", "placed by the network"],
        client_says: &["read back: placed by the network", "16 of 16 paths to 127.0.0.1 in use, "],
    },
    Example {
        program: "send_file",
        server: &["receive", "ADDR", "FOLDER/copy"],
        server_says: "received 3000001 bytes, all correct",
        client: &["send", "ADDR", "FOLDER/file"],
        client_says: &["sent 3000001 bytes"],
    },
    Example {
        program: "all_to_all",
        server: &["0", "2", "ADDR"],
        server_says: "rank 0 of 2: 3 rounds, 0 wrong bytes",
        client: &["1", "2", "ADDR"],
        client_says: &["rank 1 of 2: 3 rounds, 0 wrong bytes"],
    },
];

/// A page of programs in C, the last of which is the one by task.
const DOCUMENTATION: &str = "docs/c-api.md";
const BY_TASK: Example = Example {
    program: "tasks",
    server: &["listen", "ADDR"],
    server_says: "after 4 bytes of message: placed by the network",
    client: &["connect", "ADDR"],
    client_says: &["WRITE 1: remote access error"],
};

/// Installs the library into the build output and tries everything there.
pub fn run() -> Result<(), Failure> {
    ["gcc", "g++", "make", "pkg-config", "cmake", "valgrind", "man"]
        .into_iter()
        .try_for_each(tools::need)?;
    let folder = tree::target()?.join("xtask/c");
    let _ = fs::remove_dir_all(&folder);
    let prefix = folder.join("prefix");
    install::library_into(&prefix)?;
    check_header(&prefix)?;
    check_symbols(&prefix)?;
    manual::check(&prefix, declared(&read(&prefix.join("include/braid.h"))?))?;
    let bytes: Vec<u8> = (0..FILE_LEN).map(|i| ((i * i) >> 7) as u8).collect();
    write(&folder.join("file"), &bytes)?;
    for build in BUILDS {
        let programs = make(build, &folder, &prefix)?;
        EXAMPLES.iter().try_for_each(|each| try_out(each, build.name, &programs, &[]))?;
        if build.valgrind {
            let name = format!("{}, valgrind", build.name);
            EXAMPLES.iter().try_for_each(|each| try_out(each, &name, &programs, VALGRIND))?;
        }
    }
    let programs = cmake(&folder, &prefix)?;
    EXAMPLES.iter().try_for_each(|each| try_out(each, "cmake", &programs, &[]))?;
    let linked_statically = Example { program: "write_static", ..EXAMPLES[1] };
    try_out(&linked_statically, "cmake, valgrind", &programs, VALGRIND)?;
    let programs = documented(&folder, &prefix)?;
    try_out(&BY_TASK, DOCUMENTATION, &programs, &[])
}

fn check_header(prefix: &Path) -> Result<(), Failure> {
    for (compiler, language, standard) in [("gcc", "c", "c99"), ("g++", "c++", "c++17")] {
        let mut command = Command::new(compiler);
        command.args(["-x", language, &format!("-std={standard}"), "-pedantic", "-fsyntax-only"]);
        command.args(["-Wall", "-Wextra", "-Werror"]).arg(prefix.join("include/braid.h"));
        process::run(&mut command)?;
    }
    Ok(())
}

/// The library shows the functions of the header, under their version, and nothing else.
fn check_symbols(prefix: &Path) -> Result<(), Failure> {
    let header = read(&prefix.join("include/braid.h"))?;
    let declared: BTreeSet<String> = declared(&header).map(|name| name + "@@BRAID_0").collect();
    let library = prefix.join("lib/libbraid.so");
    let listed = process::output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library))?;
    let shown: BTreeSet<String> = listed
        .lines()
        // The version itself is an absolute symbol where GNU ld has linked.
        .filter(|line| !line.ends_with(" A BRAID_0"))
        .filter_map(|line| line.split(' ').next_back().map(str::to_owned))
        .collect();
    if shown != declared {
        let odd: Vec<_> = shown.symmetric_difference(&declared).cloned().collect();
        let odd = odd.join(", ");
        return Err(Failure::new(format!("braid.h and libbraid.so differ in {odd}")));
    }
    let dynamic = process::output(Command::new("readelf").arg("-d").arg(&library))?;
    match dynamic.contains("Library soname: [libbraid.so.0]") {
        true => Ok(()),
        false => Err(Failure::new(format!("libbraid.so has another soname:\n{dynamic}"))),
    }
}

/// The functions of the header: words with a parenthesis behind, outside of comments.
fn declared(header: &str) -> impl Iterator<Item = String> {
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("braid_").then(|| name.to_owned())
    })
}

fn make(build: &Build, folder: &Path, prefix: &Path) -> Result<PathBuf, Failure> {
    let programs = folder.join(build.name.replace(", ", "-"));
    fs::create_dir_all(&programs)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", programs.display())))?;
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(tree::root().join("examples/c"));
    make.arg(format!("CC={}", build.compiler)).arg(format!("STD={}", build.standard));
    make.arg(format!("CFLAGS={}", build.flags)).arg(format!("BUILD={}", programs.display()));
    make.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    process::run(&mut make)?;
    Ok(programs)
}

fn cmake(folder: &Path, prefix: &Path) -> Result<PathBuf, Failure> {
    let programs = folder.join("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(tree::root().join("examples/c")).arg("-B").arg(&programs);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())).stdout(Stdio::null());
    process::run(&mut configure)?;
    process::run(Command::new("cmake").arg("--build").arg(&programs).stdout(Stdio::null()))?;
    Ok(programs)
}

/// Compiles the programs of the documentation, as somebody would who has copied them. The last is
/// called `tasks`.
fn documented(folder: &Path, prefix: &Path) -> Result<PathBuf, Failure> {
    let programs = folder.join("documentation");
    fs::create_dir_all(&programs)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", programs.display())))?;
    let mut flags = Command::new("pkg-config");
    flags
        .args(["--cflags", "--libs", "braid"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = process::output(&mut flags)?;
    let found = page::programs(&read(&tree::root().join(DOCUMENTATION))?);
    for (place, code) in found.iter().enumerate() {
        let is_last = place + 1 == found.len();
        let name = if is_last { BY_TASK.program.to_owned() } else { format!("program-{place}") };
        let source = programs.join(&name).with_extension("c");
        write(&source, code.as_bytes())?;
        let mut compile = Command::new("gcc");
        compile.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]);
        compile.arg("-o").arg(programs.join(name)).arg(&source).args(flags.split_whitespace());
        compile.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
        process::run(&mut compile)?;
    }
    Ok(programs)
}

/// Runs the two processes of an example, and looks at what they say and leave.
fn try_out(example: &Example, name: &str, programs: &Path, under: &[&str]) -> Result<(), Failure> {
    let (start, program) = (Instant::now(), example.program);
    let result = run_both(example, programs, under);
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    println!("{program:<12} {name:<15} {verdict:<6} {:5.1} s", start.elapsed().as_secs_f64());
    result
}

fn run_both(example: &Example, programs: &Path, under: &[&str]) -> Result<(), Failure> {
    let addr = free_address()?;
    let start = |arguments, role: &str| -> Result<(Program, PathBuf), Failure> {
        let log = programs.join(format!("{}-{role}.log", example.program));
        let mut command = command(example.program, arguments, &addr, programs, under, &log)?;
        Ok((Program::start(&mut command)?, log))
    };
    let (mut server, server_log) = start(example.server, "server")?;
    let listens = || read(&server_log).is_ok_and(|log| log.contains("listening on "));
    // Otherwise the client fails, and the logs show why.
    let _ = braid_lab::wait_until(LIMIT, listens);
    let (mut client, client_log) = start(example.client, "client")?;
    let result = client.wait(LIMIT).and_then(|()| server.wait(LIMIT));
    drop((client, server));
    let (server, client) = (read(&server_log)?, read(&client_log)?);
    let story = format!("\nserver:\n{server}\nclient:\n{client}");
    result.map_err(|failure| Failure::new(format!("{failure}{story}")))?;
    let of_client = example.client_says.iter().map(|expected| (&client, *expected));
    for (said, expected) in of_client.chain([(&server, example.server_says)]) {
        if !said.contains(expected) {
            return Err(Failure::new(format!("nobody said `{expected}`{story}")));
        }
    }
    check_copy(example, programs)
}

fn command(
    program: &str,
    arguments: &[&str],
    addr: &str,
    programs: &Path,
    under: &[&str],
    log: &Path,
) -> Result<Command, Failure> {
    let folder = programs.parent().unwrap_or(programs).display().to_string();
    let program = programs.join(program).display().to_string();
    let fill = |word: &&str| word.replace("ADDR", addr).replace("FOLDER", &folder);
    let before = under.iter().map(fill).chain([program]);
    let mut words = before.chain(arguments.iter().map(fill));
    let first = words.next().expect("the program at least");
    let mut command = Command::new(first);
    command.args(words);
    log_to(&mut command, log)?;
    Ok(command)
}

fn check_copy(example: &Example, programs: &Path) -> Result<(), Failure> {
    if example.program != "send_file" {
        return Ok(());
    }
    let folder = programs.parent().unwrap_or(programs);
    let bytes = |name| fs::read(folder.join(name)).unwrap_or_default();
    match bytes("copy") == bytes("file") {
        true => Ok(()),
        false => Err(Failure::new("send_file has delivered other bytes than were sent")),
    }
}

fn free_address() -> Result<String, Failure> {
    let found = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    found.map(|addr| addr.to_string()).map_err(|e| Failure::new(format!("no free UDP port: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_a_header() {
        let header = "// braid_no(1).\nint braid_a(void);\nconst char *braid_b(int x,\n    int y);\n#define BRAID_C (1)\n";
        assert_eq!(declared(header).collect::<Vec<_>>(), ["braid_a", "braid_b"]);
    }
}
