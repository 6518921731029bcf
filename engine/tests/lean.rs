//! An engine without optional features moves messages, and refuses what it was built without. A
//! build with all features runs it, too: then both are offered.

use std::thread;
use std::time::Duration;

use braid::{
    Access, Datapath, Engine, EngineConfig, MetricsEndpoint, QpOptions, QpState, Status,
    VerbsOptions, wr,
};

const PATIENCE: Duration = Duration::from_secs(10);

fn config() -> EngineConfig {
    EngineConfig { bind: "127.0.0.1:0".parse().unwrap(), ..EngineConfig::default() }
}

#[test]
fn messages_arrive() {
    let engine = Engine::new(config()).unwrap();
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
    let make = || pd.create_qp(QpOptions::new(&cq, &cq)).unwrap();
    let (a, b) = (make(), make());
    let memory = pd.alloc_mr(100_000, Access::LOCAL_WRITE).unwrap();
    b.modify(QpState::Init).unwrap();
    b.post_recv(wr::recv(1, [memory.slice(..50_000).unwrap()])).unwrap();
    let listener = engine.listen(1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| listener.accept(PATIENCE).unwrap().accept(&b, b"").unwrap());
        a.connect(engine.local_addr(), b"", PATIENCE).unwrap();
    });
    a.post_send(wr::send(2, [memory.slice(50_000..).unwrap()])).unwrap();
    for _ in 0..2 {
        assert_eq!(cq.wait_one(PATIENCE).unwrap().map(|done| done.status), Some(Status::Success));
    }
}

#[test]
fn metrics_are_served_or_refused_with_the_remedy() {
    let made = Engine::new(EngineConfig { metrics: MetricsEndpoint::Local, ..config() });
    let refused = made.err().map(|error| error.to_string());
    match cfg!(feature = "metrics") {
        true => assert_eq!(refused, None),
        false => assert!(refused.is_some_and(|text| text.contains("the feature `metrics`"))),
    }
}

#[test]
fn datapaths_are_opened_or_refused_with_the_remedy() {
    let refused = |datapath| Engine::new(EngineConfig { datapath, ..config() }).unwrap_err();
    // No device has this name, and loopback is no Ethernet interface.
    let device = Datapath::Verbs(VerbsOptions::new("none0"));
    for (datapath, is_built, feature) in [
        (device, cfg!(feature = "verbs"), "the feature `verbs`"),
        (Datapath::Xdp, cfg!(feature = "xdp"), "the feature `xdp`"),
    ] {
        let text = refused(datapath).to_string();
        assert_eq!(text.contains(feature), !is_built, "{text}");
    }
    assert_eq!("verbs".parse::<braid::DatapathKind>().unwrap().name(), "verbs");
    let has_check = braid::check_xdp().map_err(|error| error.to_string());
    let is_missing = has_check.is_err_and(|text| text.contains("the feature `xdp`"));
    assert_eq!(is_missing, !cfg!(feature = "xdp"));
}

#[test]
fn keys_are_made_or_refused_with_the_remedy() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("lean.key");
    _ = std::fs::remove_file(&file);
    let refused = [braid::make_key(&file).err()];
    let refused: Vec<String> = refused.into_iter().flatten().map(|e| e.to_string()).collect();
    if cfg!(feature = "keys") {
        assert!(refused.is_empty(), "{refused:?}");
        return;
    }
    assert!(refused.iter().all(|text| text.contains("the feature `keys`")), "{refused:?}");
    assert!(!refused.is_empty() && !file.exists());
    let text = format!("braid-psk {}", "1".repeat(64));
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let error = braid::read_key(&file).unwrap_err().to_string();
    assert!(error.contains("the feature `keys`"), "{error}");
    let security = braid::Security::new(braid::Key::new([1; 32]));
    let error = Engine::new(EngineConfig { security: Some(security), ..config() }).unwrap_err();
    assert!(error.to_string().contains("the feature `keys`"), "{error}");
}
