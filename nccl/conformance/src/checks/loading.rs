//! The table, loading and unloading, and leaks.

use std::fs;
use std::thread;
use std::time::Duration;

use super::check::{Check, Stage};
use crate::logger::forget_log;
use crate::net::{INVALID_ARGUMENT, INVALID_USAGE, Net};
use crate::pair::{Pair, Verdict, ensure, returns};

pub(super) const CHECKS: &[Check] = &[
    Check::new("table", table),
    Check::new("properties", properties),
    Check::new("before init", before_init),
    Check::new("dlclose and reopen", reopen),
    // Without the allocator's caches for each thread, which count as in use.
    Check::new("closed: no thread, no socket, no memory", leaves_nothing)
        .with(&[("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1")]),
];

fn table(stage: &Stage) -> Verdict {
    let net = &stage.net;
    ensure!(net.name() == "Braid", "the name is {}", net.name());
    let optional = ["regMrDmaBuf", "getDeviceMr", "irecvConsumed", "setNetAttr"];
    for name in optional {
        let promised = net.pointer(name).is_some_and(|pointer| !pointer.is_null());
        ensure!(!promised, "{name} is there, but nothing in the properties promises it");
    }
    for name in ["init", "devices", "getProperties", "closeListen", "makeVDevice", "finalize"] {
        ensure!(net.pointer(name).is_none_or(|pointer| !pointer.is_null()), "{name} is NULL");
    }
    Ok(())
}

fn properties(stage: &Stage) -> Verdict {
    stage.session(|net, _| {
        let devices = net.devices().map_err(|code| format!("devices returned {code}"))?;
        ensure!(devices >= 1, "there are {devices} devices");
        for device in 0..devices {
            let found = net.properties(device)?;
            let is = |name: &str, good: fn(i128) -> bool| match found.number(name) {
                Some(value) if !good(value) => Err(format!("{name} is {value}")),
                _ => Ok(()),
            };
            ensure!(found.text("name").is_some_and(|name| !name.is_empty()), "no name");
            is("ptrSupport", |value| value == 1)?;
            is("regIsGlobal", |value| value == 0)?;
            is("forceFlush", |value| value == 0)?;
            is("speed", |value| value > 0)?;
            is("maxComms", |value| value >= 1024)?;
            is("maxRecvs", |value| value == 8)?;
            is("netDeviceType", |value| value == 0)?;
            is("vProps.ndevs", |value| value == 1)?;
            is("maxP2pBytes", |value| value > 0 && value <= 1 << 40)?;
            is("maxCollBytes", |value| value > 0 && value <= 1 << 40)?;
            is("maxMultiRequestSize", |value| value == 1)?;
            is("planeId", |value| value == -1)?;
            let rail = found.number("railId").unwrap_or(device.into());
            ensure!(rail == device.into(), "railId of device {device} is {rail}");
            let of_itself = found.numbers("vProps.devs").is_none_or(|devs| devs[0] == device);
            ensure!(of_itself, "device {device} is made of others");
        }
        for wrong in [-1, devices] {
            let error = net.properties(wrong).expect_err("checked below");
            ensure!(error.ends_with(&format!("returned {INVALID_ARGUMENT}")), "{error}");
        }
        Ok(())
    })
}

fn before_init(stage: &Stage) -> Verdict {
    let code = stage.net.devices().expect_err("checked below");
    returns("devices before init", code, INVALID_USAGE)
}

fn reopen(stage: &Stage) -> Verdict {
    stage.connected(|pair| pair.exchange(1000, 1))?;
    let file = stage.plugin.file_name().expect("a file").to_string_lossy().into_owned();
    for round in 0..3 {
        let net = Net::open(&stage.plugin, stage.net.version)?;
        let again = Stage { plugin: stage.plugin.clone(), net };
        again.connected(|pair| pair.exchange(100_000, round))?;
        drop(again);
        let maps = fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
        ensure!(maps.contains(&file), "the plugin was unmapped, with code that may still run");
    }
    Ok(())
}

/// Connects, transfers, closes everything; several times, because the first time may keep something
/// for good.
fn leaves_nothing(stage: &Stage) -> Verdict {
    let round = |seed| {
        stage.session(|net, ctx| {
            let pairs = [Pair::new(net, ctx, 0)?, Pair::new(net, ctx, 0)?];
            pairs.iter().try_for_each(|pair| pair.exchange(300_000, seed))?;
            pairs.into_iter().try_for_each(Pair::close)
        })
    };
    let before = (count("/proc/self/task")?, count("/proc/self/fd")?);
    (0..3).try_for_each(round)?;
    let memory = heap();
    (3..23).try_for_each(round)?;
    // A thread that has been joined may be listed for another moment.
    thread::sleep(Duration::from_millis(20));
    let after = (count("/proc/self/task")?, count("/proc/self/fd")?);
    ensure!(before.0 == after.0, "{} threads before, {} after", before.0, after.0);
    ensure!(before.1 == after.1, "{} descriptors before, {} after", before.1, after.1);
    let grown = heap().saturating_sub(memory);
    ensure!(grown < 4 << 10, "20 rounds have left {grown} bytes behind");
    Ok(())
}

fn count(folder: &str) -> Verdict<usize> {
    Ok(fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?.count())
}

/// Bytes that are allocated; the plugin and this program share the allocator.
fn heap() -> usize {
    forget_log();
    // SAFETY: reads the allocator's counters.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}
