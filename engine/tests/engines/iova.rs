//! Memory that work requests and peers address by an `iova` instead of its virtual address.

use crate::pair::everywhere;
use braid::wr::SendWrExt;
use braid::{Access, MemoryRegion, ProtectionDomain, RegisterError, Status, Work, wr};

const LEN: usize = 64 << 10;
/// The `iova` at each side. Both sides use offsets, or the same addresses for memory at different
/// virtual addresses.
const NAMES: [u64; 2] = [0, 0x7000_0000_0000];

/// Memory of the application.
struct Buffer(Box<[u64]>);

impl Buffer {
    fn new() -> Self {
        Buffer(vec![0; LEN / 8].into_boxed_slice())
    }

    fn register(
        &mut self,
        pd: &ProtectionDomain,
        iova: u64,
    ) -> Result<MemoryRegion, RegisterError> {
        let start = self.0.as_mut_ptr().cast();
        // SAFETY: the buffer outlives the region, and is only touched through it.
        unsafe { pd.register_iova(start, iova, LEN, Access::ALL) }
    }
}

fn bytes(region: &MemoryRegion, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.read_at(at, &mut bytes).unwrap();
    bytes
}

#[test]
fn every_operation_finds_the_memory_behind_the_names() {
    everywhere(|p| {
        let (mut near, mut far) = (Buffer::new(), Buffer::new());
        let near = near.register(&p.a.pd, NAMES[0]).unwrap();
        let far = far.register(&p.b.pd, NAMES[1]).unwrap();
        assert_eq!((near.addr(), far.remote().addr), (NAMES[0], NAMES[1]));
        let data: Vec<u8> = (0..20_000).map(|i: u32| (i * 7 + i / 251) as u8).collect();
        near.write_at(100, &data).unwrap();
        let piece = near.slice(100..100 + data.len()).unwrap();
        assert_eq!(piece.addr, NAMES[0] + 100);

        p.a.qp.post_send(wr::write(1, [piece], far.remote().at(7))).unwrap();
        p.successes(&p.a, 1);
        assert!(bytes(&far, 7, data.len()) == data, "WRITE");

        let back = near.slice(30_000..30_000 + data.len()).unwrap();
        p.a.qp.post_send(wr::read(2, [back], far.remote().at(7))).unwrap();
        p.successes(&p.a, 1);
        assert!(bytes(&near, 30_000, data.len()) == data, "READ");

        let receive = far.slice(40_000..40_000 + data.len()).unwrap();
        p.b.qp.post_recv(wr::recv(3, [receive])).unwrap();
        p.a.qp.post_send(wr::send(4, [piece])).unwrap();
        p.successes(&p.a, 1);
        assert_eq!(p.successes(&p.b, 1)[0].work, Work::Recv);
        assert!(bytes(&far, 40_000, data.len()) == data, "SEND");

        far.store_u64(8, 40).unwrap();
        let old = near.slice(..8).unwrap();
        p.a.qp.post_send(wr::fetch_add(5, old, far.remote().at(8), 2)).unwrap();
        p.successes(&p.a, 1);
        assert_eq!((near.load_u64(0).unwrap(), far.load_u64(8).unwrap()), (40, 42));
    });
}

#[test]
fn memory_with_an_iova_is_not_found_by_its_virtual_address() {
    everywhere(|p| {
        let mut buffer = Buffer::new();
        let region = buffer.register(&p.b.pd, NAMES[1]).unwrap();
        let mut remote = region.remote().at(0);
        remote.addr = region.as_mut_ptr() as u64;
        let piece = p.a.memory.slice(..8).unwrap();
        p.a.qp.post_send(wr::write(1, [piece], remote).unsignalled()).unwrap();
        assert_eq!(p.completions(&p.a, 1)[0].status, Status::RemoteAccess);
        let mut local = region.slice(..8).unwrap();
        local.addr = region.as_mut_ptr() as u64;
        assert!(p.b.pd.check(local, Access::NONE).is_err());
        assert_eq!(region.load_u64(0).unwrap(), 0);
    });
}

#[test]
fn names_do_not_wrap() {
    everywhere(|p| {
        let mut buffer = Buffer::new();
        let error = buffer.register(&p.a.pd, u64::MAX - 7).unwrap_err();
        assert!(matches!(error, RegisterError::Wraps { addr, .. } if addr == u64::MAX - 7));
    });
}
