//! The boot image of the machines: Debian's kernel, and a file system in memory with packages and
//! our programs.
//!
//! The packages' part is kept in `target/softroce/` until their versions change. Our part, an
//! archive that follows it, is made anew each time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::kernel::unpack;
use super::modules::KernelModules;
use super::packages::{Packages, Store, list};
use crate::files::{cannot, write};
use crate::{Failure, process, tree};

/// Parts of packages that no program here reads.
const LEFT_OUT: &[&str] = &[
    "boot",
    "usr/include",
    "usr/lib/modules",
    "usr/lib/systemd",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/security",
    "usr/share",
    "var",
];
/// The scripts of `ci-softroce/`, and where they go.
const SCRIPTS: &[(&str, &str)] =
    &[("init", "init"), ("on-peer", "usr/bin/on-peer"), ("serve-peer", "usr/bin/serve-peer")];
/// Where the libraries of Debian on amd64 are.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The folder of programs that a shell finds.
const PROGRAMS: &str = "usr/bin";
/// Where `braid-run` looks for the libraries: beside itself.
const DROP_IN: &str = "usr/bin/drop-in";

/// A file of ours, and the folder that it goes into.
pub(super) struct Program {
    file: PathBuf,
    folder: &'static str,
}

impl Program {
    pub(super) fn in_path(file: PathBuf) -> Self {
        Self { file, folder: PROGRAMS }
    }

    /// Part of the drop-in libibverbs.
    pub(super) fn drop_in(file: PathBuf) -> Self {
        Self { file, folder: DROP_IN }
    }
}

/// Files to boot from.
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    /// The version of the kernel's package.
    pub(super) version: String,
}

/// Builds the missing and outdated parts. `programs`: ours.
pub(super) fn build(folder: &Path, programs: &[Program]) -> Result<Image, Failure> {
    let store = Store::open(folder.join("packages"))?;
    let packages = store.resolve()?;
    let (kernel, base) = (folder.join("kernel"), folder.join("packages.cpio"));
    // Written last, so that an interrupted build is not taken for a whole one.
    let made_of = folder.join("packages.txt");
    let recipe = recipe(&packages)?;
    if fs::read_to_string(&made_of).ok().as_ref() != Some(&recipe) {
        println!("image: {} packages and {}", packages.programs.len(), packages.kernel);
        store.fetch(&packages)?;
        let tree = folder.join("tree");
        let _ = fs::remove_dir_all(&tree);
        for package in packages.programs.iter().chain([&packages.kernel]) {
            store.extract(package, &tree)?;
        }
        write(&base, pack(&tree)?)?;
        let found = find_kernel(&tree)?;
        let packed = fs::read(&found).map_err(|e| cannot("read", &found, &e))?;
        write(&kernel, unpack(packed)?)?;
        fs::remove_dir_all(&tree).map_err(|e| cannot("remove", &tree, &e))?;
        write(&made_of, recipe.as_bytes())?;
    }
    let mut initrd = fs::read(&base).map_err(|e| cannot("read", &base, &e))?;
    initrd.extend(ours(folder, programs)?);
    let path = folder.join("initrd");
    write(&path, &initrd)?;
    Ok(Image { kernel, initrd: path, version: packages.kernel })
}

/// All that decides what the packages' part holds.
fn recipe(packages: &Packages) -> Result<String, Failure> {
    let mut lines = vec![packages.kernel.clone()];
    lines.extend(packages.programs.iter().cloned());
    lines.extend(list("modules")?);
    lines.extend(LEFT_OUT.iter().map(|path| format!("without {path}")));
    Ok(lines.join("\n") + "\n")
}

fn pack(tree: &Path) -> Result<Vec<u8>, Failure> {
    let mut archive = Archive::default();
    for folder in ["usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", LIBRARIES, "modules"] {
        archive.folder(Path::new(folder));
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        archive.link(Path::new(name), &Path::new("usr").join(name));
    }
    // Programs name their interpreter by this path.
    archive.link(Path::new("usr/bin/sh"), Path::new("dash"));
    archive.tree(tree, &place).map_err(|e| cannot("pack", tree, &e))?;
    let mut order = String::new();
    let modules = KernelModules::find(&tree.join("lib/modules"))?;
    for module in modules.closure(&list("modules")?)? {
        let file = format!("{}.ko", module.name);
        archive.file(&Path::new("modules").join(&file), 0o644, &module.content);
        order.push_str(&file);
        order.push('\n');
    }
    archive.file(Path::new("modules/order"), 0o644, order.as_bytes());
    Ok(archive.finish())
}

/// Where a package's file goes: `/bin`, `/sbin` and `/lib` are links into `/usr`.
fn place(path: &Path) -> Option<PathBuf> {
    let merged = ["bin", "sbin", "lib", "lib64"].iter().any(|top| path.starts_with(top));
    let path = if merged { Path::new("usr").join(path) } else { path.to_owned() };
    (!LEFT_OUT.iter().any(|left_out| path.starts_with(left_out))).then_some(path)
}

fn find_kernel(tree: &Path) -> Result<PathBuf, Failure> {
    let boot = tree.join("boot");
    let mut entries = fs::read_dir(&boot).map_err(|e| cannot("read", &boot, &e))?.flatten();
    let kernel = entries.find(|e| e.file_name().to_string_lossy().starts_with("vmlinuz-"));
    kernel.map(|entry| entry.path()).ok_or_else(|| {
        Failure::new(format!("the kernel's package has no vmlinuz in {}", boot.display()))
    })
}

/// The archive of what is built here.
fn ours(folder: &Path, programs: &[Program]) -> Result<Vec<u8>, Failure> {
    let mut archive = Archive::default();
    for (name, target) in SCRIPTS {
        let path = tree::root().join("ci-softroce").join(name);
        let content = fs::read(&path).map_err(|e| cannot("read", &path, &e))?;
        archive.file(Path::new(target), 0o755, &content);
    }
    // The system's C library comes along: it may be newer than that of the packages, and never is
    // older than the program wants.
    let libraries = programs.iter().map(|program| libraries(&program.file));
    let libraries = libraries.collect::<Result<Vec<_>, _>>()?.concat();
    for library in libraries.into_iter().collect::<BTreeSet<_>>() {
        let name = library.file_name().expect("ldd names files");
        let folder = match name.to_string_lossy().starts_with("ld-linux") {
            true => "usr/lib64",
            false => LIBRARIES,
        };
        let content = fs::read(&library).map_err(|e| cannot("read", &library, &e))?;
        archive.file(&Path::new(folder).join(name), 0o755, &content);
    }
    archive.folder(Path::new(DROP_IN));
    for Program { file, folder: place } in programs {
        let name = file.file_name().expect("a program has a name");
        let stripped = folder.join(name);
        process::run(Command::new("objcopy").arg("--strip-debug").arg(file).arg(&stripped))?;
        let content = fs::read(&stripped).map_err(|e| cannot("read", &stripped, &e))?;
        archive.file(&Path::new(place).join(name), 0o755, &content);
    }
    Ok(archive.finish())
}

/// The system's that it needs; what it needs of ours is beside it.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = program.parent().expect("a program is in a folder");
    let output = Command::new("ldd")
        .arg(program)
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .map_err(|e| Failure::new(format!("cannot start `ldd`: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match output.status.success() && !text.contains("not found") {
        true => Ok(library_paths(&text, folder)),
        false => Err(Failure::new(format!("ldd cannot resolve {}:\n{text}", program.display()))),
    }
}

/// `NAME => /PATH (0x..)`, or `/PATH (0x..)` for the loader; the kernel's own object has no path.
/// Without those of a folder.
fn library_paths(ldd: &str, without: &Path) -> Vec<PathBuf> {
    let words = ldd.lines().filter_map(|line| line.split_whitespace().find(|w| w.starts_with('/')));
    words.map(PathBuf::from).filter(|path| path.parent() != Some(without)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_where_a_merged_system_has_them() {
        let placed = |path| place(Path::new(path));
        assert_eq!(placed("bin/ip"), Some("usr/bin/ip".into()));
        assert_eq!(
            placed("lib64/ld-linux-x86-64.so.2"),
            Some("usr/lib64/ld-linux-x86-64.so.2".into())
        );
        assert_eq!(placed("usr/bin/iperf3"), Some("usr/bin/iperf3".into()));
        assert_eq!(placed("etc/libibverbs.d"), Some("etc/libibverbs.d".into()));
        assert_eq!(placed("usr/share/doc"), None);
        assert_eq!(placed("lib/modules"), None);
    }

    #[test]
    fn libraries_are_those_with_a_path() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n\
                    \tlibibverbs.so.1 => /ours/libibverbs.so.1 (0x4)\n";
        let found = library_paths(text, Path::new("/ours"));
        assert_eq!(found, [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld.so")]);
    }
}
