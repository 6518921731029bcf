//! `BRAID_*` variables and the file.

use std::fs;

use super::check::{Check, Stage};
use crate::logger::logged;
use crate::net::INVALID_USAGE;
use crate::pair::{Pair, Verdict, ensure, returns};

pub(super) const CHECKS: &[Check] = &[
    Check::new("wrong number", |s| refused(s, &["BRAID_THREADS", "`many`", "0 to 64"]))
        .with(&[("BRAID_THREADS", "many")]),
    Check::new("number out of range", |s| refused(s, &["BRAID_PATHS", "`0`", "1 to 4096"]))
        .with(&[("BRAID_PATHS", "0")]),
    Check::new("no packet per path pick", |s| refused(s, &["BRAID_QUANTUM", "`0`", "1 to 4096"]))
        .with(&[("BRAID_QUANTUM", "0")]),
    Check::new("wrong name", |s| refused(s, &["BRAID_LB", "`magic`", "round-robin"]))
        .with(&[("BRAID_LB", "magic")]),
    Check::new("wrong switch", |s| refused(s, &["BRAID_CRC", "`maybe`", "on, off"]))
        .with(&[("BRAID_CRC", "maybe")]),
    Check::new("wrong probability", |s| refused(s, &["BRAID_DROP", "`2`", "0 to 1"]))
        .with(&[("BRAID_DROP", "2")]),
    Check::new("wrong log filter", |s| refused(s, &["BRAID_LOG", "`verbose`", "such as info"]))
        .with(&[("BRAID_LOG", "verbose")]),
    Check::new("missing file", |s| refused(s, &["BRAID_CONFIG", "/nonexistent/braid.toml"]))
        .with(&[("BRAID_CONFIG", "/nonexistent/braid.toml")]),
    Check::new("file", file).udp_only().picks_devices(),
    Check::new("no such interface", no_such_interface)
        .with(&[("BRAID_IFNAME", "nosuch")])
        .picks_devices(),
    Check::new("several devices", several_devices)
        .with(&[("BRAID_ADDR", "127.0.0.1,::1")])
        .udp_only()
        .picks_devices(),
];

/// `init` fails, and the log has all of the words in one warning.
fn refused(stage: &Stage, words: &[&str]) -> Verdict {
    let code = stage.net.init(None).err().unwrap_or(0);
    returns("init", code, INVALID_USAGE)?;
    let told = |text: &str| words.iter().all(|word| text.contains(word));
    let log = logged();
    ensure!(log.iter().any(|(level, text)| *level == 2 && told(text)), "the log only says {log:?}");
    Ok(())
}

fn no_such_interface(stage: &Stage) -> Verdict {
    let code = stage.net.init(None).err().unwrap_or(0);
    ensure!(code != 0, "init succeeded without an interface");
    let log = logged();
    let told = |(_, text): &(i32, String)| text.contains("BRAID_IFNAME") && text.contains("lo (");
    ensure!(log.iter().any(told), "the log only says {log:?}");
    Ok(())
}

/// Settings of the file apply, variables take precedence, and an unknown key is named.
fn file(stage: &Stage) -> Verdict {
    let path = std::env::temp_dir().join(format!("nccl-conformance-{}.toml", std::process::id()));
    // SAFETY: this process has one thread at this time.
    unsafe { std::env::set_var("BRAID_CONFIG", &path) };
    let write = |text: &str| fs::write(&path, text).map_err(|error| error.to_string());
    write("addr = [\"127.0.0.1\", \"::1\"]\npaths = 4\n")?;
    let two = stage.session(|net, ctx| {
        ensure!(net.devices() == Ok(2), "the file's addresses give {:?} devices", net.devices());
        let pair = Pair::new(net, ctx, 1)?;
        pair.exchange(5000, 1)?;
        pair.close()
    });
    // SAFETY: all threads of the plugin have ended.
    unsafe { std::env::set_var("BRAID_ADDR", "127.0.0.1") };
    let one = stage.session(|net, _| {
        ensure!(net.devices() == Ok(1), "the variable gives {:?} devices", net.devices());
        Ok(())
    });
    write("pahts = 4\n")?;
    let unknown = refused(stage, &["`pahts`", "nccl-conformance", "paths"]);
    fs::remove_file(&path).map_err(|error| error.to_string())?;
    two.and(one).and(unknown)
}

fn several_devices(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        ensure!(net.devices() == Ok(2), "two addresses give {:?} devices", net.devices());
        let guids = [0, 1].map(|device| net.properties(device).map(|p| p.number("guid")));
        ensure!(guids[0] != guids[1], "both devices have the same guid");
        let pairs = [Pair::new(net, ctx, 0)?, Pair::new(net, ctx, 1)?];
        pairs.iter().try_for_each(|pair| pair.exchange(70_000, 3))?;
        pairs.into_iter().try_for_each(Pair::close)
    })
}
