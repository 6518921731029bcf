//! The information as text.

use std::io::{self, Write};

use serde_json::Value;

use super::datapaths::{Availability, Offer, Offers};
use super::policies::Choice;
use super::rdma_devices::RdmaDevice;
use super::{Info, System};

/// Width of the output in columns.
const WIDTH: usize = 100;

pub(super) fn print(out: &mut impl Write, info: &Info) -> io::Result<()> {
    let Info { version, build, system, .. } = info;
    let super::Build { profile, arch, os } = build;
    writeln!(out, "braid-perf {version}, {profile} build for {arch} {os}{}", machine(system))?;
    writeln!(out, "\ninterfaces")?;
    for interface in &info.interfaces {
        let mtu = interface.mtu.map_or("?".to_owned(), |mtu| mtu.to_string());
        let down = if interface.running { "" } else { "  (down)" };
        let addresses = interface.addresses.join(", ");
        writeln!(out, "  {:<12} MTU {mtu:<6} {addresses}{down}", interface.name)?;
    }
    writeln!(out, "\nRDMA devices")?;
    if info.rdma_devices.is_empty() {
        writeln!(out, "  none")?;
    }
    info.rdma_devices.iter().try_for_each(|device| print_device(out, device))?;
    writeln!(out, "\ndatapaths")?;
    info.datapaths.iter().try_for_each(|offer| print_offer(out, offer, system))?;
    print_choices(out, "path policies (--lb)", &info.path_policies)?;
    print_choices(out, "rail policies (--rail-policy)", &info.rail_policies)?;
    print_choices(out, "congestion control (--cc)", &info.controllers)?;
    print_choices(out, "loss recovery (--loss-recovery)", &info.loss_recoveries)?;
    writeln!(out, "\ndefaults in force")?;
    for setting in &info.defaults {
        let value = match &setting.value {
            Value::Null => "not set".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let option = setting.option.map_or(String::new(), |option| format!(", {option}"));
        writeln!(out, "  {:<26} {value:<24} {}{option}", setting.name, setting.from)?;
    }
    Ok(())
}

fn machine(system: &System) -> String {
    let kernel = system.kernel.as_ref().map(|kernel| format!("; kernel {kernel}"));
    let cores = system.cores.map(|cores| format!(", {cores} core(s)"));
    kernel.into_iter().chain(cores).collect()
}

fn print_device(out: &mut impl Write, device: &RdmaDevice) -> io::Result<()> {
    for port in &device.ports {
        let on = port.interface.as_ref().map_or(String::new(), |name| format!(" on {name}"));
        let (number, link, state) = (port.number, &port.link_layer, &port.state);
        writeln!(out, "  {:<12} port {number}, {link}{on}, {state}", device.name)?;
        for gid in &port.gids {
            writeln!(out, "  {:<12} GID {}: {} ({})", "", gid.index, gid.gid, gid.kind)?;
        }
    }
    Ok(())
}

fn print_offer(out: &mut impl Write, offer: &Offer, system: &System) -> io::Result<()> {
    let device = offer.device.as_ref().map_or(String::new(), |device| format!(" {device}"));
    let name = format!("{}{device}", offer.name);
    match &offer.found {
        Availability::Unavailable(why) => writeln!(out, "  {name:<12} not available: {why}"),
        Availability::Offers(offers) => {
            let mut name = name.as_str();
            for line in lines(offers, system) {
                writeln!(out, "  {name:<12} {line}")?;
                name = "";
            }
            Ok(())
        }
    }
}

fn lines(offers: &Offers, system: &System) -> Vec<String> {
    let Offers { batch_segments, batch_bytes, segment_bytes, .. } = offers;
    let mut lines = Vec::new();
    if let Some(udp) = offers.udp {
        let word = |has: bool| if has { "yes" } else { "no" };
        lines.push(format!(
            "GSO {}, GRO {}, timestamps {}",
            word(udp.gso),
            word(udp.gro),
            if udp.timestamps { "of the kernel" } else { "none: the engine's clock" }
        ));
    }
    lines.extend(offers.xdp_datagram_bytes.map(|bytes| {
        format!(
            "datagrams of up to {bytes} bytes by AF_XDP, \
             with --bind to the IPv4 address of an Ethernet interface"
        )
    }));
    let direct = offers
        .direct_segment_bytes
        .map_or(String::new(), |bytes| format!(", of up to {bytes} where the NIC places them"));
    lines.push(format!("segments of up to {segment_bytes} bytes of payload{direct}"));
    lines.push(format!(
        "up to {batch_segments} of them at a time, {batch_bytes} bytes with headers"
    ));
    let check = if offers.payload_crc { "with a CRC of Braid's" } else { "checked by the medium" };
    let mtu = if offers.path_mtu_search { ", path MTU searched for" } else { "" };
    let marks = if offers.congestion_marks { "known" } else { "not told" };
    lines
        .push(format!("payloads {check}{mtu}; congestion marks (ECN) of arriving packets {marks}"));
    if let Some(granted) = offers.receive_buffer_bytes {
        let asked = offers.udp.map(|udp| udp.receive_buffer_asked_bytes);
        lines.push(match asked.filter(|asked| *asked > granted as usize) {
            None => format!("receive buffer: {granted} bytes"),
            Some(asked) => format!(
                "receive buffer: {granted} of {asked} bytes granted; net.core.rmem_max is {}: \
                 `sysctl -w net.core.rmem_max={asked}` grants all",
                system.rmem_max.map_or("unknown".to_owned(), |limit| limit.to_string())
            ),
        });
    }
    lines
}

fn print_choices(out: &mut impl Write, what: &str, choices: &[Choice]) -> io::Result<()> {
    writeln!(out, "\n{what}")?;
    let word = |choice: &Choice| {
        let example = choice.example.unwrap_or(choice.name);
        format!("{example}{}", if choice.default { " (default)" } else { "" })
    };
    let mut line = String::from(" ");
    for word in choices.iter().map(word) {
        if line.len() + word.len() + 2 > WIDTH {
            writeln!(out, "{line}")?;
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(&word);
    }
    writeln!(out, "{line}")
}
