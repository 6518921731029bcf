//! Several interfaces as one device: by configuration, and as NCCL combines devices itself. The
//! checks use the loopback, where each address of 127.0.0.0/8 can be a rail.

use std::ffi::c_int;

use super::check::{Check, Stage};
use crate::logger::logged;
use crate::net::{INVALID_ARGUMENT, INVALID_USAGE, Net};
use crate::pair::{Pair, Verdict, ensure, returns};
use crate::table::most_members;

const TWO_RAILS: (&str, &str) = ("BRAID_RAILS", "127.0.0.1,127.0.0.2");

pub(super) const CHECKS: &[Check] = &[
    Check::new("two rails, one device", one_device).with(&[TWO_RAILS]).udp_only().picks_devices(),
    Check::new("two rails, lossy", |s| s.connected(exchanges))
        .with(&[TWO_RAILS, ("BRAID_DROP", "0.02"), ("BRAID_REORDER", "0.02")])
        .udp_only()
        .picks_devices(),
    Check::new("two rails, lpt, engine threads", |s| s.connected(exchanges))
        .with(&[TWO_RAILS, ("BRAID_RAIL_POLICY", "lpt"), ("BRAID_THREADS", "2")])
        .udp_only()
        .picks_devices(),
    Check::new("two devices of two rails", two_devices)
        .with(&[("BRAID_RAILS", "127.0.0.1,127.0.0.2;127.0.0.3,127.0.0.4")])
        .udp_only()
        .picks_devices(),
    Check::new("rails that are no interfaces", |s| refused_at_init(s, "nosuch0"))
        .with(&[("BRAID_RAILS", "lo,nosuch0")])
        .picks_devices(),
    Check::new("rails of two families", |s| refused_at_init(s, "one family"))
        .with(&[("BRAID_RAILS", "127.0.0.1,::1")])
        .udp_only()
        .picks_devices(),
    Check::new("makeVDevice", made_by_nccl)
        .with(&[("BRAID_ADDR", "127.0.0.1,127.0.0.2")])
        .udp_only()
        .picks_devices()
        .since(9),
    Check::new("makeVDevice: what is refused", refused)
        .with(&[("BRAID_ADDR", "127.0.0.1,127.0.0.2,::1")])
        .udp_only()
        .picks_devices()
        .since(9),
];

/// Short ones, and those that many chunks are made of, in turns over both rails.
fn exchanges(pair: &Pair<'_>) -> Verdict {
    let sizes = [0, 1, 5000, 3 << 20, 70_000, 1 << 20];
    sizes.into_iter().enumerate().try_for_each(|(seed, size)| pair.exchange(size, seed as u64))
}

fn one_device(stage: &Stage) -> Verdict {
    stage.session(|net, _| {
        ensure!(net.devices() == Ok(1), "two rails give {:?} devices", net.devices());
        let found = net.properties(0)?;
        let name = found.text("name").unwrap_or_default();
        ensure!(name == "lo:127.0.0.1+lo:127.0.0.2", "it is called {name}");
        // The loopback's, twice.
        let speed = found.number("speed");
        ensure!(speed == Some(100_000), "its speed is {speed:?}");
        let itself = found.numbers("vProps.devs").is_none_or(|devs| devs[0] == 0);
        ensure!(itself && found.number("vProps.ndevs").unwrap_or(1) == 1, "it is made of others");
        Ok(())
    })?;
    stage.connected(exchanges)
}

fn two_devices(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        ensure!(net.devices() == Ok(2), "two groups of rails give {:?} devices", net.devices());
        let guids = [0, 1].map(|device| net.properties(device).map(|p| p.number("guid")));
        ensure!(guids[0] != guids[1], "both devices have the same guid");
        for pair in [Pair::new(net, ctx, 1)?, Pair::between(net, ctx, 0, 1)?] {
            exchanges(&pair)?;
            pair.close()?;
        }
        Ok(())
    })
}

fn refused_at_init(stage: &Stage, word: &str) -> Verdict {
    ensure!(stage.net.init(None).is_err(), "init succeeded");
    let log = logged();
    let told = |(_, text): &(i32, String)| text.contains("BRAID_RAILS") && text.contains(word);
    ensure!(log.iter().any(told), "the log only says {log:?}");
    Ok(())
}

/// NCCL counts devices, makes one of two, and counts again.
fn made_by_nccl(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let made = make(net, &[1, 0])?;
        ensure!(made == 2, "the first device that is made has the number {made}");
        ensure!(net.devices() == Ok(3), "then there are {:?} devices", net.devices());
        let (found, parts) = (net.properties(made)?, [net.properties(0)?, net.properties(1)?]);
        let devs = found.numbers("vProps.devs").unwrap_or_default();
        let count = found.number("vProps.ndevs");
        ensure!(count == Some(2) && devs[..2] == [1, 0], "it is made of {count:?}, {devs:?}");
        let speed = |of: &crate::table::Properties| of.number("speed").unwrap_or_default();
        let sum = speed(&parts[0]) + speed(&parts[1]);
        ensure!(speed(&found) == sum, "its speed is {}, not {sum}", speed(&found));
        let name = found.text("name").unwrap_or_default();
        ensure!(name == "lo:127.0.0.2+lo:127.0.0.1", "it is called {name}");
        // A device may be a part of several, and of one alone.
        let (again, alone) = (make(net, &[0, 1])?, make(net, &[0])?);
        ensure!((again, alone) == (3, 4), "the next have the numbers {again} and {alone}");
        // With itself, with another one that is made, and with one that has a single rail.
        for (from, to) in [(made, made), (made, again), (again, 0), (0, again), (alone, 0), (1, 1)]
        {
            let pair = Pair::between(net, ctx, from, to)?;
            exchanges(&pair).map_err(|seen| format!("device {from} with {to}: {seen}"))?;
            pair.close()?;
        }
        Ok(())
    })
}

fn make(net: &Net, members: &[c_int]) -> Verdict<c_int> {
    let made = net.make_virtual(members.len() as c_int, members);
    made.map_err(|code| format!("makeVDevice({members:?}) returned {code}"))
}

/// As by NCCL's own InfiniBand plugin; NCCL goes on with the devices that there are.
fn refused(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let most = most_members(net.version) as c_int;
        let refuses = |what: &str, count: c_int, members: &[c_int]| {
            let code = net.make_virtual(count, members).err().unwrap_or(0);
            returns(&format!("makeVDevice with {what}"), code, INVALID_USAGE)
        };
        refuses("no device", 0, &[])?;
        refuses("a negative count", -1, &[])?;
        refuses("more than it has room for", most + 1, &[0, 1])?;
        refuses("device 3 of 3", 2, &[0, 3])?;
        refuses("device -1", 2, &[-1, 0])?;
        refuses("the same device twice", 2, &[1, 1])?;
        refuses("IPv4 and IPv6", 2, &[0, 2])?;
        let made = make(net, &[0, 1])?;
        refuses("a device that was made", 2, &[0, made])?;
        returns("makeVDevice(d NULL)", net.make_virtual_nowhere(true), INVALID_ARGUMENT)?;
        returns("makeVDevice(props NULL)", net.make_virtual_nowhere(false), INVALID_ARGUMENT)?;
        ensure!(net.devices() == Ok(4), "there are {:?} devices, not 4", net.devices());
        for number in 4..256 {
            let made = make(net, &[0, 1])?;
            ensure!(made == number, "device {number} has the number {made}");
        }
        refuses("255 others", 2, &[0, 1])?;
        let pair = Pair::new(net, ctx, 255)?;
        exchanges(&pair)?;
        pair.close()
    })
}
