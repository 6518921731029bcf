//! A bare Debian with a C compiler and this machine's Rust, in a folder and a mount namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::files::{cannot, write};
use crate::process::Program;
use crate::{Failure, process, tools, tree};

/// The packages beside those of a minimal system.
const PACKAGES: &str = "gcc,libc6-dev,ca-certificates";
/// The toolchain's place in the system.
const RUST: &str = "/opt/rust";
/// The user's folder in the system.
const HOME: &str = "root";
/// Files by which this machine reaches the network.
const NETWORK: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"];
/// Variables by which programs reach the network.
const VARIABLES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "CARGO_HTTP_CAINFO",
];
/// Mounts what programs expect, says so, and stays until it is ended, with the namespace. The
/// folder becomes a mount, because `ip netns exec` changes that of its root.
const HOLD: &str = "mount --bind \"$1\" \"$1\" && cd \"$1\" && mount --bind \"$2\" .\"$3\" && \
                    mount -t proc proc proc && mount --rbind /dev dev && \
                    mount --rbind /sys sys && mount -t tmpfs tmpfs run && echo ready && \
                    exec sleep infinity";
const MOUNT_LIMIT: Duration = Duration::from_secs(10);

/// A system that nobody has used. It goes with this value.
pub(super) struct System {
    folder: PathBuf,
    /// The process that keeps the mount namespace. `None`: it has ended.
    holder: Option<Program>,
}

impl System {
    /// Makes the system from a kept one, which debootstrap makes if it is missing.
    pub(super) fn fresh() -> Result<Self, Failure> {
        let base = tree::target()?.join("xtask/first-contact");
        let kept = base.join("debian");
        make(&kept)?;
        let mut system = System { folder: base.join("fresh"), holder: None };
        system.remove()?;
        process::run(Command::new("cp").arg("-a").arg(&kept).arg(&system.folder))?;
        let rust = system.folder.join(&RUST[1..]);
        fs::create_dir_all(&rust).map_err(|e| cannot("make", &rust, &e))?;
        for file in NETWORK {
            if let Ok(bytes) = fs::read(file) {
                write(&system.folder.join(&file[1..]), bytes)?;
            }
        }
        let toolchain = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", HOLD, "sh"]);
        unshare.arg(&system.folder).arg(toolchain.trim()).arg(RUST);
        unshare.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut holder = Program::start(&mut unshare)?;
        holder.value("ready", MOUNT_LIMIT)?;
        system.holder = Some(holder);
        Ok(system)
    }

    /// The user's folder, from outside of the system.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.join(HOME)
    }

    /// A command line of the shell in a folder of the user, without variables of this machine.
    pub(super) fn shell(&self, folder: &str, line: &str) -> Command {
        let pid = self.holder.as_ref().map_or(0, Program::pid);
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={pid}")).arg("--mount").arg("chroot").arg(&self.folder);
        command.args(["sh", "-c", &format!("cd /{HOME}/{folder} && {line}")]);
        let passed = VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let passed: Vec<_> = passed.collect();
        command.env_clear().envs(passed).env("HOME", format!("/{HOME}")).env("LC_ALL", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.env("PATH", format!("{RUST}/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
        command
    }

    /// Removes the folder, in which nothing is mounted any more.
    fn remove(&mut self) -> Result<(), Failure> {
        // The mounts end with the last process of their namespace.
        drop(self.holder.take());
        match fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(cannot("remove", &self.folder, &e))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // The next run removes what is left, or says why it cannot.
        let _ = self.remove();
    }
}

/// Makes the system that fresh ones are copies of, unless it is there.
fn make(folder: &Path) -> Result<(), Failure> {
    // Written last, so that an interrupted system is not taken for a whole one.
    let made = folder.with_extension("made");
    if made.is_file() {
        return Ok(());
    }
    tools::need("debootstrap")?;
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|e| cannot("remove", folder, &e))?;
    }
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}")]);
    process::run(debootstrap.arg(release()?).arg(folder).stdout(Stdio::null()))
        .map_err(|failure| failure.remedy("look at the network: it comes from deb.debian.org"))?;
    write(&made, "")
}

/// The name of this machine's Debian.
fn release() -> Result<String, Failure> {
    let file = Path::new("/etc/os-release");
    let text = crate::files::read(file)?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned).ok_or_else(|| {
        Failure::new(format!("{} has no VERSION_CODENAME", file.display()))
            .remedy("run it on Debian, whose C library the toolchain needs")
    })
}
