//! A link as virtual machines have it on most hosts: a tap device for each, on a bridge.
//!
//! Through a tap, QEMU passes on whether the checksum of a packet is still to be computed. So the
//! guests' virtio devices offer checksums and scatter-gather, and the kernel GSO. Over a socket
//! they offer nothing.
//!
//! Bridge and taps are in a network namespace of their own. It is held by a shell that dies with
//! us.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::process::Program;

/// Time for the shell to make the bridge.
const LIMIT: Duration = Duration::from_secs(30);

/// Arguments of `unshare` and of `nsenter`.
struct Namespace {
    make: &'static [&'static str],
    enter: &'static [&'static str],
}

const ROOTS: Namespace = Namespace { make: &["--net"], enter: &["--net"] };
/// Users other than root need a user namespace, to be root in.
const USERS: Namespace = Namespace {
    make: &["--net", "--user", "--map-root-user"],
    enter: &["--net", "--user", "--preserve-credentials"],
};

/// Taps queue what QEMU has not read yet, and drop what is more than that: no program has as many
/// on their way.
const MAKE: &str = "set -e
ip link add wire mtu 9000 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
for tap in tap1 tap2; do
    ip tuntap add dev $tap mode tap vnet_hdr
    ip link set $tap mtu 9000 txqueuelen 10000 addrgenmode none master wire up
done
ip link set wire addrgenmode none up
echo up
exec cat";

/// A bridge with two taps, until this value is dropped.
pub(super) struct Bridge {
    namespace: Namespace,
    holder: Program,
}

impl Bridge {
    pub(super) fn new() -> Result<Self, Failure> {
        let namespace = if nix::unistd::geteuid().is_root() { ROOTS } else { USERS };
        let mut make = Command::new("unshare");
        make.args(namespace.make).args(["setpriv", "--pdeathsig", "KILL", "sh", "-c", MAKE]);
        make.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = Program::start(&mut make)?;
        match holder.value("up", LIMIT) {
            Ok(_) => Ok(Self { namespace, holder }),
            Err(why) => Err(Failure::new(format!("cannot make a bridge with two taps: {why}"))
                .remedy("it takes /dev/net/tun, and root or a kernel that lets users make network namespaces")),
        }
    }

    /// A program where the taps are.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.child.id().to_string();
        command.args(["--target", &holder]).args(self.namespace.enter).arg(program);
        command
    }
}

/// QEMU's end of the link, for the first or the second machine.
pub(super) fn netdev(id: &str, host: u8) -> String {
    format!("tap,id={id},ifname=tap{host},script=no,downscript=no,vhost=off")
}
