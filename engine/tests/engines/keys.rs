//! Keys of memory regions: the holder of one cannot guess another, and a key never works again
//! after its region is gone.

use std::collections::HashSet;

use crate::pair::{Pair, local};
use braid::{Access, Engine, RemoteAddr, Status, wr};

#[test]
fn a_key_says_nothing_about_another() {
    let pd = Engine::new(local()).unwrap().alloc_pd();
    let regions: Vec<_> = (0..300).map(|_| pd.alloc_mr(1, Access::NONE).unwrap()).collect();
    let keys: Vec<u32> = regions.iter().map(|region| region.rkey()).collect();
    let steps: HashSet<u32> = keys.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
    assert!(steps.len() > 290, "keys have a pattern: {keys:x?}");
    let other = Engine::new(local()).unwrap().alloc_pd().alloc_mr(1, Access::NONE).unwrap();
    assert_ne!(other.rkey(), keys[0], "every engine begins with the same key");
}

#[test]
fn a_key_does_not_come_back() {
    let pd = Engine::new(local()).unwrap().alloc_pd();
    let mut keys = HashSet::new();
    for round in 0..2000 {
        let region = pd.alloc_mr(1, Access::NONE).unwrap();
        assert!(keys.insert(region.rkey()), "{:#x} is back in round {round}", region.rkey());
    }
}

#[test]
fn a_peer_that_holds_a_key_reaches_nothing_by_those_beside_it() {
    let known = Pair::new(&local()).remote.rkey;
    for guess in [1, 2, 0x100, 0x200, known.wrapping_add(1), known.wrapping_add(0x100)] {
        let p = Pair::new(&local());
        let _other = p.b.pd.alloc_mr(4096, Access::ALL).unwrap();
        let remote = RemoteAddr { addr: p.remote.addr, rkey: guess };
        p.a.qp.post_send(wr::write(1, [p.a.memory.slice(..8).unwrap()], remote)).unwrap();
        assert_eq!(p.completions(&p.a, 1)[0].status, Status::RemoteAccess, "{guess:#x}");
    }
}
