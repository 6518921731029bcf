//! `cargo xtask tools`: the programs that the checks need, installed where they are missing.

use std::path::Path;
use std::process::Command;

use crate::{Failure, process, tree};

/// Something that must be there and the Debian packages that bring it, with blanks between them.
struct Tool {
    what: What,
    package: &'static str,
    needed_for: &'static str,
}

#[derive(Clone, Copy)]
enum What {
    /// A program, anywhere on PATH.
    Program(&'static str),
    /// A file by its whole path, where nothing that runs tells.
    File(&'static str),
}

const TOOLS: &[Tool] = &[
    Tool { what: What::Program("cc"), package: "gcc", needed_for: "linking" },
    Tool { what: What::Program("c++"), package: "g++", needed_for: "building libFuzzer" },
    Tool {
        what: What::Program("ip"),
        package: "iproute2",
        needed_for: "the end-to-end tests between namespaces",
    },
    Tool {
        what: What::Program("nft"),
        package: "nftables",
        needed_for: "the fabric of namespaces",
    },
    Tool { what: What::Program("make"), package: "make", needed_for: "the C examples" },
    Tool { what: What::Program("pkg-config"), package: "pkgconf", needed_for: "the C examples" },
    Tool { what: What::Program("cmake"), package: "cmake", needed_for: "the C examples" },
    Tool {
        what: What::Program("qemu-system-x86_64"),
        package: "qemu-system-x86",
        needed_for: "the machines with Soft-RoCE",
    },
    Tool {
        what: What::Program("xz"),
        package: "xz-utils",
        needed_for: "the machines with Soft-RoCE",
    },
    // Which finds its way into the C library by the debug information of that only.
    Tool {
        what: What::Program("valgrind"),
        package: "valgrind libc6-dbg",
        needed_for: "the C examples, and counting instructions",
    },
    Tool { what: What::Program("man"), package: "man-db", needed_for: "the man pages" },
    Tool {
        what: What::Program("python3"),
        package: "python3",
        needed_for: "the test of nccl/gpu-test.py",
    },
    // Brings dumpcap, too.
    Tool {
        what: What::Program("tshark"),
        package: "tshark",
        needed_for: "reading captured packets as Wireshark does",
    },
    Tool {
        what: What::Program("zsh"),
        package: "tmux zsh fish",
        needed_for: "completions in real shells, and `top` on a terminal",
    },
    Tool {
        what: What::File("/usr/include/infiniband/verbs.h"),
        package: "libibverbs-dev",
        needed_for: "comparing our verbs ABI with its headers",
    },
    Tool {
        what: What::Program("ib_write_bw"),
        package: "perftest ibverbs-utils rdmacm-utils ucx-utils openmpi-bin libopenmpi-dev",
        needed_for: "programs on the drop-in libibverbs",
    },
    Tool {
        what: What::File("/usr/share/doc/rdma-core/tests/run_tests.py"),
        package: "python3-pyverbs python3-venv",
        needed_for: "pyverbs' own suite and Python's wheels on the drop-in libibverbs",
    },
    Tool {
        what: What::Program("qperf"),
        package: "qperf fio",
        needed_for: "benchmarks on the drop-in libibverbs",
    },
    Tool {
        what: What::Program("mpirun.mpich"),
        package: "mpich libmpich-dev",
        needed_for: "MPICH on the drop-in libibverbs",
    },
    Tool {
        what: What::Program("fi_pingpong"),
        package: "libfabric-bin",
        needed_for: "programs on the drop-in libibverbs, and what Braid is measured beside",
    },
    Tool {
        what: What::File("/usr/sbin/tgtd"),
        package: "tgt libiscsi-bin",
        needed_for: "programs on the drop-in libibverbs",
    },
    Tool {
        what: What::File("/usr/include/ucp/api/ucp.h"),
        package: "libucx-dev",
        needed_for: "programs on the drop-in libibverbs",
    },
    Tool {
        what: What::Program("debootstrap"),
        package: "debootstrap",
        needed_for: "a bare system, on which a new user begins",
    },
    Tool {
        what: What::File("/etc/libibverbs.d/rxe.driver"),
        package: "libibverbs1 ibverbs-providers",
        needed_for: "the verbs datapath",
    },
];

/// The part of Python that creates virtual environments.
const VENV: Tool = Tool {
    what: What::Program("python3"),
    package: "python3 python3-venv",
    needed_for: "the Python package",
};

/// Cargo's own helpers, which rustup's minimal profile leaves out.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs what is missing; touches nothing where everything is there.
pub fn run() -> Result<(), Failure> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !tool.what.is_there()).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    COMPONENTS.iter().try_for_each(|(verb, component)| add_component(verb, component))?;
    println!("all tools are there");
    Ok(())
}

/// Installs what creates virtual environments of Python.
pub(crate) fn install_venv() -> Result<(), Failure> {
    install(&[&VENV])
}

/// Fails, naming the package, when a program is not there.
pub fn need(program: &str) -> Result<(), Failure> {
    if on_path(program) {
        return Ok(());
    }
    Err(Failure::new(format!("`{program}` is not on PATH")).remedy("as root: cargo xtask tools"))
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Program(name) | What::File(name) => name,
        }
    }

    fn is_there(self) -> bool {
        match self {
            What::Program(program) => on_path(program),
            What::File(file) => Path::new(file).is_file(),
        }
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn install(missing: &[&Tool]) -> Result<(), Failure> {
    for tool in missing {
        println!(
            "missing: {} ({}), needed for {}",
            tool.what.name(),
            tool.package,
            tool.needed_for
        );
    }
    let packages: Vec<&str> =
        missing.iter().flat_map(|tool| tool.package.split_whitespace()).collect();
    let remedy = format!("install by hand: {}", packages.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(Failure::new("tools are missing and there is no apt-get").remedy(remedy));
    }
    if !nix::unistd::geteuid().is_root() {
        let remedy = format!("sudo apt-get install {}", packages.join(" "));
        return Err(Failure::new("tools are missing and only root may install them").remedy(remedy));
    }
    process::run(Command::new("apt-get").args(["-q", "update"]))
        .and_then(|()| apt_get_install(&packages))
        .map_err(|failure| failure.remedy(remedy))
}

fn apt_get_install(packages: &[&str]) -> Result<(), Failure> {
    process::run(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "-y", "--no-install-recommends", "install"])
            .args(packages),
    )
}

fn add_component(verb: &str, component: &str) -> Result<(), Failure> {
    let there = tree::cargo().args([verb, "--version"]).output().is_ok_and(|o| o.status.success());
    if there {
        return Ok(());
    }
    process::run(Command::new("rustup").args(["component", "add", component])).map_err(|failure| {
        failure.remedy(format!("rustup component add {component}, or your system's package of it"))
    })
}
