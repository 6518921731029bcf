//! Congestion control by credit of the receiver, in engines.

use std::thread;

use crate::pair::{MEMORY, PATIENCE, Pair, Side, configs, local};
use crate::scripted::Scripted;
use braid::{ConnectError, JoinError, wr};
use braid_wire::{QpId, Setup, Token};

/// Ten packets leave without credit before a round trip is known. The rest waits for grants: of the
/// writer's requests, and of the reader's responses.
#[test]
fn data_beyond_the_first_window_leaves_by_grants_in_both_directions() {
    for (name, config) in configs() {
        let cc: braid::CcConfig = "rccc:line=10G".parse().unwrap();
        let p = Pair::with(&config, |options| options.config.cc = cc.clone());
        let data: Vec<u8> = (0..MEMORY).map(|i| (i % 251) as u8).collect();
        p.a.memory.write_at(0, &data).unwrap();
        let all = || p.a.memory.slice(0..MEMORY).unwrap();
        p.a.qp.post_send(wr::write(1, [all()], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
        assert!(p.b.bytes(0..MEMORY) == data, "{name}: written");
        p.a.memory.write_at(0, &vec![0; MEMORY]).unwrap();
        p.a.qp.post_send(wr::read(2, [all()], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
        assert!(p.a.bytes(0..MEMORY) == data, "{name}: read back");
    }
}

#[test]
fn a_peer_that_grants_no_credit_is_refused_with_the_reason() {
    let cc: braid::CcConfig = "rccc:line=10G".parse().unwrap();
    let side = Side::new(&local(), |options| options.config.cc = cc.clone());
    let peer = Scripted::new();
    let failed = thread::scope(|scope| {
        let (qp, addr) = (&side.qp, peer.addr());
        let connecting = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let connect = peer.hear_connect();
        assert!(connect.what.offer.grants_credit, "this build grants it");
        let mut accept = crate::scripted::answer(connect.what.nonce, 0, QpId::new(9), Token(5));
        accept.offer.grants_credit = false;
        peer.send_setup(connect.from, &Setup::Accept(accept));
        connecting.join().unwrap().unwrap_err()
    });
    let ConnectError::Join { source: JoinError::NoCredit(named), .. } = &failed else {
        panic!("{failed:?}");
    };
    assert_eq!(*named, cc.to_string());
    assert!(failed.to_string().contains("upgrade the peer"), "{failed}");
}
