//! `cargo xtask`: the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{
    Failure, advisories, bench, book, c_examples, count, deb, dependencies, drop_in, e2e, fabric,
    first_contact, flood, fmt, fuzz, install, lint, loom, msrv, nightly, package, process,
    programs, recipe, sanitize, soak, softroce, studies, terminal, test, tidy, tools,
    verbs_programs, wheel, wireshark,
};

/// Every chore of the project in one command.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything, as CI runs it, installing what is missing
    Test,
    /// Long searches, in parts; `test` runs one part with each commit
    Nightly(nightly::NightlyOptions),
    /// The programs and libraries that other commands run, with the release profile
    Build,
    /// Format the Rust sources
    Fmt {
        /// Only report what is not formatted
        #[arg(long)]
        check: bool,
    },
    /// Formatting, clippy and rustdoc without warnings, and tidy
    Lint,
    /// The conventions: file sizes, names, unsafe code, layers
    Tidy,
    /// Real processes, over loopback and between network namespaces (needs root)
    E2e(e2e::E2eOptions),
    /// Feed the parsers with mutated bytes
    Fuzz(fuzz::FuzzOptions),
    /// The README's first commands on a bare Debian with Rust, and their times (needs root)
    FirstContact,
    /// Many seeds of the virtual-time scenarios
    Soak(soak::SoakOptions),
    /// The papers' studies again, which must reach the verdicts of their pages
    Studies(studies::StudiesOptions),
    /// A path policy, added to a copy of the sources as CONTRIBUTING.md says
    Recipe,
    /// Hostile datagrams by the million at an engine's port, during a transfer
    Flood(flood::FloodOptions),
    /// Every interleaving of our own concurrency
    Loom,
    /// The tests of unsafe and threaded code under ThreadSanitizer and AddressSanitizer
    Sanitize(sanitize::SanitizeOptions),
    /// Instructions of the hot path, against their budgets
    Count(count::CountOptions),
    /// Braid beside what else moves bytes, between two namespaces: quick, or --full (needs root)
    Bench(bench::BenchOptions),
    /// Two virtual machines with Soft-RoCE: Braid beside perftest, or a command of yours
    Softroce(softroce::SoftroceOptions),
    /// A leaf-spine fabric of network namespaces, with trouble on command (needs root)
    Fabric(fabric::FabricOptions),
    /// The process that delays a fabric's frames
    #[command(name = braid_lab::relay::SUBCOMMAND, hide = true)]
    FabricRelay {
        /// The name of the fabric
        name: String,
    },
    /// The C library as it is installed, and the C examples under ASan and valgrind
    C,
    /// Install the C library for pkg-config and CMake, the NCCL plugin, and the programs with their
    /// pages
    Install(install::InstallOptions),
    /// The documentation as HTML with a search
    Book(book::BookOptions),
    /// The drop-in libibverbs and librdmacm, and braid-run
    DropIn,
    /// Unmodified verbs programs on the drop-in libibverbs: perftest, pingpongs, UCX, Open MPI
    VerbsPrograms(verbs_programs::VerbsProgramsOptions),
    /// A Debian package of what is installed
    Deb(deb::DebOptions),
    /// Licences, sources and versions of the dependencies
    Dependencies,
    /// Advisories of the RustSec database against the dependencies
    Advisories(advisories::AdvisoriesOptions),
    /// All crates by the oldest Rust that is supported, which rustup installs beside yours
    Msrv,
    /// The crates as the registry would get them, each built out of its archive
    Package,
    /// Captured packets, dissected by tshark with wire/wireshark/braid.lua (needs root)
    Wireshark,
    /// `braid-perf` in real shells and on real terminals (needs root)
    Terminal,
    /// The Python package: checked, built, and tested in fresh virtual environments
    Wheel(wheel::WheelOptions),
    /// Install the programs that the checks need
    Tools,
}

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Failure> {
    let chore = Cli::parse().chore;
    process::clean_up_when_interrupted()?;
    match chore {
        Chore::Test => test::run(),
        Chore::Nightly(options) => nightly::run(&options),
        Chore::Build => programs::build().map(drop),
        Chore::Fmt { check } => fmt::run(check),
        Chore::Lint => lint::run(),
        Chore::Tidy => tidy::run(),
        Chore::E2e(options) => e2e::run(&options),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Soak(options) => soak::run(&options),
        Chore::Studies(options) => studies::run(&options),
        Chore::FirstContact => first_contact::run(),
        Chore::Flood(options) => flood::run(&options),
        Chore::Recipe => recipe::run(),
        Chore::Loom => loom::run(),
        Chore::Msrv => msrv::run(),
        Chore::Sanitize(options) => sanitize::run(&options),
        Chore::Count(options) => count::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Softroce(options) => softroce::run(&options),
        Chore::Fabric(options) => fabric::run(&options),
        Chore::FabricRelay { name } => fabric::relay(&name),
        Chore::C => c_examples::run(),
        Chore::Install(options) => install::run(&options),
        Chore::Book(options) => book::run(&options),
        Chore::DropIn => drop_in::run(),
        Chore::VerbsPrograms(options) => verbs_programs::run(&options),
        Chore::Deb(options) => deb::run(&options),
        Chore::Advisories(options) => advisories::run(&options),
        Chore::Dependencies => dependencies::run(),
        Chore::Package => package::run(),
        Chore::Wireshark => wireshark::run(),
        Chore::Terminal => terminal::run(),
        Chore::Wheel(options) => wheel::run(&options),
        Chore::Tools => tools::run(),
    }
}
