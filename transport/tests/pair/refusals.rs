//! Each reason for which a packet is not taken, alone: everything else about the packet is as it
//! should be.

use braid_transport::{
    Access, AccessError, Admit, LossRecovery, PdId, QpConfig, QpState, Refusal, Status,
};
use braid_wire::{AtomicOperands, DataHeader, NakCode, Opcode, Token};

use crate::end::End;

const FIRST: u32 = 0xFF_FFF0;
const LEN: u32 = 100;

/// A packet that is the whole of its message.
fn whole(end: &End, opcode: Opcode, ahead: u32) -> DataHeader {
    let remote = end.remote();
    let header = match opcode.has_payload() {
        true => end.segment(opcode, FIRST + ahead, LEN, 0..LEN),
        false => DataHeader {
            message_len: LEN,
            offset: 0,
            last: true,
            ..end.segment(opcode, FIRST + ahead, 0, 0..0)
        },
    };
    let operands = AtomicOperands { swap_or_add: 1, compare: 0 };
    let operands = opcode.has_operands().then_some(operands);
    let is_send = matches!(opcode, Opcode::Send | Opcode::SendImm);
    let (address, rkey) = if is_send { (0, 0) } else { (remote.addr, remote.rkey) };
    DataHeader { operands, address, rkey, ..header }
}

/// The first packet of a connection arrives, as `change` has it.
fn first(config: QpConfig, opcode: Opcode, change: impl FnOnce(DataHeader) -> DataHeader) -> Admit {
    let mut end = End::with(FIRST, config);
    end.post_recv(LEN);
    let header = change(whole(&end, opcode, 0));
    end.arrive(&header)
}

fn as_it_is(header: DataHeader) -> DataHeader {
    header
}

fn is_taken(admit: &Admit) -> bool {
    matches!(admit, Admit::Take(_))
}

/// The requests that touch memory by a key, and what they need.
const REMOTE: [(Opcode, Access); 5] = [
    (Opcode::Write, Access::REMOTE_WRITE),
    (Opcode::WriteImm, Access::REMOTE_WRITE),
    (Opcode::ReadRequest, Access::REMOTE_READ),
    (Opcode::CompareSwap, Access::REMOTE_ATOMIC),
    (Opcode::FetchAdd, Access::REMOTE_ATOMIC),
];

#[test]
fn valid_packets_are_taken() {
    let all = REMOTE.map(|(opcode, _)| opcode);
    for opcode in all.into_iter().chain([Opcode::Send, Opcode::SendImm]) {
        assert!(is_taken(&first(QpConfig::default(), opcode, as_it_is)), "{opcode:?}");
    }
}

#[test]
fn wrong_token_is_refused() {
    let stray = |header| DataHeader { token: Token(8), ..header };
    let admit = first(QpConfig::default(), Opcode::Send, stray);
    assert_eq!(admit, Admit::Refuse(Refusal::Token));
}

#[test]
fn queue_pair_in_err_takes_nothing() {
    let mut end = End::new(FIRST);
    end.modify(QpState::Error);
    let header = whole(&end, Opcode::Write, 0);
    assert_eq!(end.arrive(&header), Admit::Refuse(Refusal::State));
}

#[test]
fn packets_beyond_the_window_are_refused() {
    let mut end = End::with(FIRST, QpConfig { window: 8, ..QpConfig::default() });
    let (inside, beyond) = (whole(&end, Opcode::Write, 7), whole(&end, Opcode::Write, 8));
    assert_eq!(end.arrive(&beyond), Admit::Refuse(Refusal::Window));
    assert!(is_taken(&end.arrive(&inside)));
}

#[test]
fn go_back_n_takes_packets_in_order_only() {
    let config = QpConfig { recovery: LossRecovery::GoBackN, ..QpConfig::default() };
    let mut end = End::with(FIRST, config);
    let packets = [1, 0, 1].map(|ahead| whole(&end, Opcode::Write, ahead));
    assert_eq!(end.arrive(&packets[0]), Admit::Refuse(Refusal::Order));
    assert!(packets[1..].iter().all(|packet| is_taken(&end.arrive(packet))));
}

#[test]
fn messages_without_a_receive_are_not_ready() {
    for opcode in [Opcode::Send, Opcode::SendImm, Opcode::WriteImm] {
        let mut end = End::new(FIRST);
        let packet = whole(&end, opcode, 0);
        assert_eq!(end.arrive(&packet), Admit::Refuse(Refusal::NotReady), "{opcode:?}");
        end.post_recv(LEN);
        assert!(is_taken(&end.arrive(&packet)), "{opcode:?}");
    }
}

#[test]
fn send_longer_than_its_receive_is_refused() {
    let mut end = End::new(FIRST);
    end.post_recv(LEN - 1);
    let packet = whole(&end, Opcode::Send, 0);
    assert_eq!(end.arrive(&packet), Admit::Refuse(Refusal::TooLong));
}

#[test]
fn receive_in_another_domain_is_not_filled() {
    let config = QpConfig { pd: PdId(1), ..QpConfig::default() };
    let admit = first(config, Opcode::Send, as_it_is);
    assert!(matches!(admit, Admit::Refuse(Refusal::Local)), "{admit:?}");
}

/// The sender has done nothing wrong; the receive completes with the error (IBTA vol. 1, 9.9.3).
#[test]
fn send_into_an_invalid_receive_is_a_local_error() {
    let config = QpConfig { pd: PdId(1), ..QpConfig::default() };
    let mut end = End::with(FIRST, config);
    end.post_recv(LEN);
    end.post_recv(LEN);
    let header = whole(&end, Opcode::Send, 0);
    assert!(matches!(end.arrive(&header), Admit::Refuse(Refusal::Local)));
    let statuses: Vec<_> = end.completions().iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::LocalProtection, Status::Flushed]);
    let told: Vec<_> = end.acks().iter().filter_map(|ack| ack.nak).collect();
    assert_eq!(told, [(NakCode::RemoteOperational, FIRST)]);
}

/// Nothing behind a packet that was refused for good is taken, though what is missing before it is.
#[test]
fn packets_behind_a_refused_one_are_refused() {
    for (opcode, _) in REMOTE.into_iter().chain([(Opcode::Send, Access::NONE)]) {
        let mut end = End::new(FIRST);
        end.post_recv(LEN);
        let forbidden = DataHeader { rkey: 1, ..whole(&end, Opcode::Write, 2) };
        assert!(matches!(end.arrive(&forbidden), Admit::Refuse(Refusal::Access(_))));
        for ahead in [3, 2, 4] {
            let behind = whole(&end, opcode, ahead);
            assert_eq!(end.arrive(&behind), Admit::Refuse(Refusal::Barred), "{opcode:?} {ahead}");
        }
        for ahead in [1, 0] {
            let before = whole(&end, Opcode::Write, ahead);
            assert!(is_taken(&end.arrive(&before)), "{opcode:?} {ahead}");
        }
    }
}

/// The lowest of several refusals counts, because nothing is barred before it.
#[test]
fn lowest_refused_packet_is_reported() {
    let mut end = End::new(FIRST);
    for ahead in [5, 2, 4] {
        let header = DataHeader { rkey: 1, ..whole(&end, Opcode::Write, ahead) };
        assert!(matches!(end.arrive(&header), Admit::Refuse(_)));
    }
    for ahead in [0, 1] {
        let before = whole(&end, Opcode::Write, ahead);
        assert!(is_taken(&end.arrive(&before)));
    }
    let told: Vec<_> = end.acks().iter().filter_map(|ack| ack.nak).collect();
    assert!(told.is_empty() || told == [(NakCode::RemoteAccess, FIRST + 2)], "{told:?}");
    assert!(!end.is_receiving());
}

#[test]
fn unknown_key_is_refused() {
    for (opcode, _) in REMOTE {
        let forged = |header: DataHeader| DataHeader { rkey: header.rkey ^ 1, ..header };
        let admit = first(QpConfig::default(), opcode, forged);
        let refused = matches!(admit, Admit::Refuse(Refusal::Access(AccessError::Key { .. })));
        assert!(refused, "{opcode:?}: {admit:?}");
    }
}

#[test]
fn key_of_another_domain_is_refused() {
    for (opcode, _) in REMOTE {
        let config = QpConfig { pd: PdId(1), ..QpConfig::default() };
        let admit = first(config, opcode, as_it_is);
        let refused = matches!(admit, Admit::Refuse(Refusal::Access(AccessError::Domain { .. })));
        assert!(refused, "{opcode:?}: {admit:?}");
    }
}

#[test]
fn access_outside_the_region_is_refused() {
    for (opcode, _) in REMOTE {
        let outside = |header: DataHeader| {
            let address = header.address - 8;
            DataHeader { address, ..header }
        };
        let admit = first(QpConfig::default(), opcode, outside);
        let refused = matches!(admit, Admit::Refuse(Refusal::Access(AccessError::Bounds { .. })));
        assert!(refused, "{opcode:?}: {admit:?}");
    }
}

#[test]
fn access_that_the_queue_pair_forbids_is_refused() {
    for (opcode, needed) in REMOTE {
        let others = [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];
        let others = others.into_iter().filter(|access| *access != needed);
        let access = others.fold(Access::LOCAL_WRITE, |all, other| all | other);
        let config = QpConfig { access, ..QpConfig::default() };
        let refused = Admit::Refuse(Refusal::Permission(needed));
        assert_eq!(first(config, opcode, as_it_is), refused, "{opcode:?}");
    }
}

#[test]
fn atomic_without_alignment_or_operands_is_refused() {
    for opcode in [Opcode::CompareSwap, Opcode::FetchAdd] {
        let crooked = |header: DataHeader| {
            let address = header.address + 4;
            DataHeader { address, ..header }
        };
        let admit = first(QpConfig::default(), opcode, crooked);
        assert!(matches!(admit, Admit::Refuse(Refusal::Alignment(_))), "{opcode:?}: {admit:?}");
        let empty = |header| DataHeader { operands: None, ..header };
        let admit = first(QpConfig::default(), opcode, empty);
        assert_eq!(admit, Admit::Refuse(Refusal::Malformed), "{opcode:?}");
    }
}

#[test]
fn response_without_a_request_is_refused() {
    for opcode in [Opcode::ReadResponse, Opcode::AtomicResponse] {
        let admit = first(QpConfig::default(), opcode, as_it_is);
        assert_eq!(admit, Admit::Refuse(Refusal::Malformed), "{opcode:?}");
    }
}
