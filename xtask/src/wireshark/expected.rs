//! The expected fields of a packet: Wireshark's names, and the values that the protocol's own
//! decoder reads.

use braid_wire::{
    Ack, Connect, Control, ControlKind, Credit, DataHeader, Packet, Part, PathId, Probe, ProbeKind,
    SealedHeader, Setup,
};

/// A field of the script and its value.
pub(super) type Field = (&'static str, u64);

/// All fields of a packet that are numbers.
pub(super) fn fields(packet: &Packet<'_>) -> Vec<Field> {
    match packet {
        Packet::Data(header, _) => of_data(header),
        Packet::Ack(ack) => of_ack(ack),
        Packet::Control(control) => of_control(control),
        Packet::Credit(credit) => of_credit(credit),
        Packet::Probe(probe) => of_probe(probe),
        Packet::Part(part, _) => of_part(part),
        Packet::Setup(setup) => of_setup(setup),
        Packet::Sealed(header) => of_sealed(header),
    }
}

fn of_data(header: &DataHeader) -> Vec<Field> {
    let mut fields = vec![
        ("opcode", header.opcode as u64),
        ("solicited", header.solicited.into()),
        ("qp", header.qp.get().into()),
        ("ack_requested", header.ack_request.into()),
        ("psn", header.psn.into()),
        ("last", header.last.into()),
        ("repeated", header.retransmission.into()),
        ("payload_len", header.len.into()),
        ("token", header.token.0.into()),
        ("number", header.number.into()),
        ("address", header.address),
        ("rkey", header.rkey.into()),
        ("message_len", header.message_len.into()),
        ("offset", header.offset.into()),
        ("imm", header.imm.into()),
        ("stamp", header.stamp.into()),
        ("payload_check", header.payload_crc.into()),
    ];
    if let Some(operands) = header.operands {
        fields.extend([("swap", operands.swap_or_add), ("compare", operands.compare)]);
    }
    if header.len > 0 && header.payload_crc != 0 {
        fields.push(("payload_check_ok", 1));
    }
    fields
}

fn path(path: PathId) -> u64 {
    (path.to_bits() & 0x0FFF).into()
}

fn rail(path: PathId) -> u64 {
    path.rail().get() as u64
}

fn of_ack(ack: &Ack) -> Vec<Field> {
    let (refusal, refused) = ack.nak.map_or((0, 0), |(code, psn)| (code as u64, psn));
    let mut fields = vec![
        ("opcode", 0xD0),
        ("qp", ack.qp.get().into()),
        ("psn", ack.cumulative.into()),
        ("refusal", refusal),
        ("bitmap_words", ack.bitmap.words().len() as u64),
        ("stream", ack.stream as u64),
        ("token", ack.token.0.into()),
        ("highest", ack.highest.into()),
        ("refused_psn", refused.into()),
        ("rnr_delay", ack.rnr_delay_us.into()),
        ("echo_path", path(ack.path)),
        ("echo_rail", rail(ack.path)),
        ("marked_paths", ack.marks.iter().count() as u64),
        ("stamp", ack.stamp.into()),
        ("ack_delay", ack.delay_ns.into()),
        ("received", ack.received.into()),
        ("duplicates", ack.duplicates.into()),
    ];
    fields.extend(ack.bitmap.words().iter().map(|word| ("bitmap", *word)));
    fields
}

fn of_control(control: &Control) -> Vec<Field> {
    let opcode = match control.kind {
        ControlKind::Disconnect(_) => 0xE5,
        ControlKind::Confirm => 0xE6,
        ControlKind::Ping => 0xE7,
        ControlKind::Pong => 0xE8,
        ControlKind::Unknown => 0xE9,
    };
    let mut fields = vec![
        ("opcode", opcode),
        ("qp", control.qp.get().into()),
        ("token", control.token.0.into()),
        ("sender", control.from.get().into()),
        ("stamp", control.stamp.into()),
    ];
    if let ControlKind::Disconnect(last) = control.kind {
        fields.extend([
            ("refusal", last.refusal.map_or(0, |code| code as u64)),
            ("last_request", last.requests.into()),
            ("last_response", last.responses.into()),
        ]);
    }
    fields
}

fn of_credit(credit: &Credit) -> Vec<Field> {
    let mut fields = vec![
        ("opcode", if credit.need.is_some() { 0xD1 } else { 0xD2 }),
        ("qp", credit.qp.get().into()),
        ("stream", credit.stream as u64),
        ("credit_rail", credit.rail.get() as u64),
        ("token", credit.token.0.into()),
        ("granted", credit.granted),
    ];
    if let Some(need) = credit.need {
        fields.extend([
            ("credit_rate", need.bits_per_second),
            ("credit_target", need.target),
            ("unsolicited", need.unsolicited),
            ("credit_lost", need.lost),
        ]);
    }
    fields
}

fn of_probe(probe: &Probe) -> Vec<Field> {
    let opcode = match probe.kind {
        ProbeKind::Probe => 0xEA,
        ProbeKind::Probed => 0xEB,
    };
    vec![
        ("opcode", opcode),
        ("qp", probe.qp.get().into()),
        ("probe_size", probe.size.into()),
        ("token", probe.token.0.into()),
        ("sender", probe.from.get().into()),
        ("serial", probe.serial.into()),
    ]
}

fn of_part(part: &Part) -> Vec<Field> {
    vec![
        ("opcode", 0xEC),
        ("qp", part.qp.get().into()),
        ("psn", part.psn.into()),
        ("part", part.index.into()),
        ("parts", part.count.into()),
        ("token", part.token.0.into()),
        ("serial", part.serial.into()),
    ]
}

fn of_sealed(header: &SealedHeader) -> Vec<Field> {
    vec![
        ("opcode", 0xED),
        ("qp", header.qp.get().into()),
        ("token", header.token.0.into()),
        ("transmission", header.number),
    ]
}

fn of_setup(setup: &Setup) -> Vec<Field> {
    match setup {
        Setup::Hello(hello) => vec![("opcode", 0xE0), ("nonce", hello.nonce)],
        Setup::Cookie { nonce, cookie, key_id, .. } => {
            let (nonce, cookie) = (("nonce", *nonce), ("cookie", *cookie));
            vec![("opcode", 0xE1), nonce, cookie, ("key_id", *key_id)]
        }
        Setup::Connect(connect) => {
            let mut fields = of_offer(0xE2, connect);
            fields.push(("cookie", connect.cookie));
            fields
        }
        Setup::Accept(accept) => of_offer(0xE3, accept),
        Setup::SealedConnect(sealed) => {
            vec![("opcode", 0xEE), ("nonce", sealed.nonce), ("cookie", sealed.cookie)]
        }
        Setup::SealedAccept(sealed) => vec![("opcode", 0xEF), ("nonce", sealed.nonce)],
        Setup::Reject(reject) => {
            vec![("opcode", 0xE4), ("nonce", reject.nonce), ("reason", reject.reason as u64)]
        }
    }
}

fn of_offer(opcode: u64, connect: &Connect) -> Vec<Field> {
    let offer = &connect.offer;
    vec![
        ("opcode", opcode),
        ("nonce", connect.nonce),
        ("offer_qp", offer.qp.get().into()),
        ("offer_token", offer.token.0.into()),
        ("offer_psn", offer.psn.into()),
        ("instance", offer.instance),
        ("rails", connect.routing.rails.len() as u64),
        ("mtu", offer.mtu.into()),
        ("receive_buffer", offer.receive_buffer.into()),
        ("window", offer.window.into()),
        ("max_rd_atomic", offer.max_rd_atomic.into()),
        ("payload_crc", (offer.crc == braid_wire::Crc::On).into()),
        ("private_len", connect.private_data.len() as u64),
    ]
}
