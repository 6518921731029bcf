//! The engine offers the datapath of the recipe by its name, and sends its packets over it.

use std::time::Duration;

use braid::{
    ConnectError, DatapathKind, DatapathOptions, Engine, EngineConfig, QpOptions, QpState,
};

#[test]
fn the_datapath_is_offered_by_name_and_takes_the_packets() {
    let kind: DatapathKind = "discard".parse().unwrap();
    let datapath = kind.build(&DatapathOptions::default()).unwrap();
    assert_eq!(datapath.kind(), kind);
    let bind = "127.0.0.1:4791".parse().unwrap();
    let engine = Engine::new(EngineConfig { datapath, bind, ..Default::default() }).unwrap();
    let cq = engine.create_cq(16).unwrap();
    let qp = engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq)).unwrap();
    qp.modify(QpState::Init).unwrap();
    let peer = "127.0.0.1:4792".parse().unwrap();
    let error = qp.connect(peer, b"", Duration::from_millis(200)).unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    assert!(engine.counters().injected > 0, "the datapath counts the packets that it discards");
}
