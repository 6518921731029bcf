//! The traffic class of NCCL's configuration: v10 and later. Over TCP the sockets tell it.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::check::{Check, Stage};
use crate::handle::Handle;
use crate::logger::logged;
use crate::net::{INVALID_ARGUMENT, NULL};
use crate::pair::{Verdict, ensure, listen, returns};

/// DSCP 46, expedited forwarding.
const CLASS: c_int = 0xB8;

pub(super) const CHECKS: &[Check] = &[
    Check::new("traffic class", |stage| class(stage, CLASS, CLASS)).with(TCP).since(10).udp_only(),
    Check::new("traffic class that is not set", |stage| class(stage, -1, 0))
        .with(TCP)
        .since(10)
        .udp_only(),
    Check::new("traffic class out of range", out_of_range).since(10),
];

const TCP: &[(&str, &str)] = &[("BRAID_DATAPATH", "tcp")];

fn class(stage: &Stage, given: c_int, expected: c_int) -> Verdict {
    stage.net.traffic_class.store(given, Ordering::Relaxed);
    stage.connected(|pair| {
        pair.exchange(100_000, 1)?;
        let seen = classes_of_connections();
        ensure!(seen.contains(&expected), "connections have the classes {seen:x?}");
        let is_other = |class: &c_int| *class != 0 && *class != expected;
        ensure!(!seen.iter().any(is_other), "connections have the classes {seen:x?}");
        Ok(())
    })
}

/// The classes of this process's TCP connections, without the ECN bits.
fn classes_of_connections() -> Vec<c_int> {
    let class = |fd: c_int| {
        let is_stream = option(fd, libc::SOL_SOCKET, libc::SO_TYPE)? == libc::SOCK_STREAM;
        let is_tcp = option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)? == libc::IPPROTO_TCP;
        let listens = option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN)? != 0;
        let class = option(fd, libc::IPPROTO_IP, libc::IP_TOS)?;
        (is_stream && is_tcp && !listens).then_some(class & 0xFC)
    };
    (0..1024).filter_map(class).collect()
}

fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the place is a number of this length.
    let code = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (code == 0).then_some(value)
}

/// v10 has the configuration in `connect`, later versions in `init`.
fn out_of_range(stage: &Stage) -> Verdict {
    let net = &stage.net;
    net.traffic_class.store(256, Ordering::Relaxed);
    let code = match net.init(None) {
        Err(code) => code,
        Ok(ctx) => {
            let (listener, mut handle): (_, Handle) = listen(net, ctx, 0)?;
            let mut send = NULL;
            let code = net.connect(ctx, 0, &raw mut handle, &raw mut send);
            returns("closeListen", net.close_listen(listener), 0)?;
            returns("finalize", net.finalize(ctx), 0)?;
            code
        }
    };
    returns("the call with the configuration", code, INVALID_ARGUMENT)?;
    let told =
        |(level, text): &(c_int, String)| *level == 2 && text.contains("`trafficClass` is 256");
    ensure!(logged().iter().any(told), "the log does not say why: {:?}", logged());
    Ok(())
}
