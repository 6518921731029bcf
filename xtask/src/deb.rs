//! `cargo xtask deb`: a Debian package of what `cargo xtask install` installs.

mod check;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{read, write};
use crate::{Failure, install, process, tree};

/// Where to, and what then.
#[derive(clap::Args)]
pub struct DebOptions {
    /// The folder for the package [default: target/xtask/deb]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Install it, use what is in it, and remove it (needs root)
    #[arg(long)]
    check: bool,
}

/// The name of the package.
const NAME: &str = "braid";

/// Makes the package, and tries it.
pub fn run(options: &DebOptions) -> Result<(), Failure> {
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => tree::target()?.join("xtask/deb"),
    };
    let package = make(&out)?;
    println!("{}", package.display());
    if options.check { check::run(&package, &out) } else { Ok(()) }
}

/// Puts everything below a root of its own and packs that.
fn make(out: &Path) -> Result<PathBuf, Failure> {
    let root = out.join("root");
    // An earlier package's.
    _ = fs::remove_dir_all(&root);
    install::into(&root.join("usr"))?;
    let (version, architecture) = (install::version()?, say("dpkg", &["--print-architecture"])?);
    let documents = root.join("usr/share/doc").join(NAME);
    for (file, name) in [
        ("CHANGELOG.md", "changelog"),
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
    ] {
        write(&documents.join(name), &read(&tree::root().join(file))?)?;
    }
    write(&documents.join("copyright"), COPYRIGHT)?;
    write(&root.join("DEBIAN/control"), &control(&version, &architecture, installed_kib(&root)?)?)?;
    // The library is found by its name at once, and no more once it has gone.
    write(&root.join("DEBIAN/triggers"), "activate-noawait ldconfig\n")?;
    open_to_all(&root)?;
    let package = out.join(format!("{NAME}_{version}_{architecture}.deb"));
    process::run(
        Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&root).arg(&package),
    )?;
    Ok(package)
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Braid

Files: *
Copyright: The Braid developers
License: MIT or Apache-2.0
 The texts are in LICENSE-MIT and LICENSE-APACHE beside this file.

Files: usr/share/doc/braid/html/*
Copyright: The Braid developers, the authors of mdBook (the theme), and Fonticons (the icons)
License: MIT or Apache-2.0, and MPL-2.0, and CC-BY-4.0
 The theme's sources are at https://github.com/rust-lang/mdBook, and the icons are those of Font
 Awesome Free. The fonts have their licences beside them.
";

fn control(version: &str, architecture: &str, kib: u64) -> Result<String, Failure> {
    // Linked against this machine's C library, it runs with that or a later one.
    let libc = say("dpkg-query", &["--show", "--showformat=${Version}", "libc6"])?;
    let libc = libc.split('-').next().unwrap_or_default().to_owned();
    Ok(format!(
        "\
Package: {NAME}
Version: {version}
Architecture: {architecture}
Maintainer: The Braid developers <braid@localhost>
Installed-Size: {kib}
Depends: libc6 (>= {libc}), libgcc-s1
Suggests: libibverbs1
Section: net
Priority: optional
Description: userspace RDMA transport over many network paths
 Reliable queue pairs in the manner of verbs, over plain UDP or an RDMA device: the C
 library libbraid with its header, the NCCL net plugin libnccl-net-braid.so, the
 programs braid-perf and braid-sim, and a drop-in libibverbs and librdmacm, on which
 braid-run starts unmodified verbs programs.
"
    ))
}

/// Returns the size of the installed files in KiB.
fn installed_kib(root: &Path) -> Result<u64, Failure> {
    let bytes: u64 = install::files(root)?.iter().map(|(_, bytes)| bytes).sum();
    Ok(bytes.div_ceil(1024))
}

/// Whatever this user's umask has made of folders and files.
fn open_to_all(folder: &Path) -> Result<(), Failure> {
    let unchanged = |e| Failure::new(format!("cannot open {} to all: {e}", folder.display()));
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(unchanged)?;
    for entry in fs::read_dir(folder).map_err(unchanged)? {
        let path = entry.map_err(unchanged)?.path();
        let metadata = path.symlink_metadata().map_err(unchanged)?;
        if metadata.is_dir() {
            open_to_all(&path)?;
        } else if metadata.is_file() {
            let mode = 0o644 | (metadata.permissions().mode() & 0o111);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(unchanged)?;
        }
    }
    Ok(())
}

fn say(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let said = process::output(Command::new(program).args(arguments));
    let said = said.map_err(|failure| failure.remedy("a Debian package is made on Debian"))?;
    Ok(said.trim().to_owned())
}
