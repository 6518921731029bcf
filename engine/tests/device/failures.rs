//! Copies that fail, contexts that are destroyed, and pointers that are none.

use braid::wr;
use braid::{Access, CudaError, EndCause, MemoryError, RegisterError, Status};
use cuda_substitute::Behaviour;

use crate::gpu::Gpu;
use crate::pair::{Pair, local};
use crate::{LEN, device, everywhere, pattern};

/// Ends in which a copy of the receiving or the sending side fails.
fn fail(gpu: &Gpu, p: &Pair, behaviour: Behaviour) {
    const COUNT: u64 = 16;
    const PART: usize = 100_000;
    let (near, far) = (device(&p.a, LEN), device(&p.b, LEN));
    let data = pattern(5, PART);
    for index in 0..COUNT {
        gpu.poke(&near, PART * index as usize, &data);
    }
    gpu.behave(behaviour);
    for index in 0..COUNT {
        let at = PART * index as usize;
        let piece = near.slice(at..at + PART).unwrap();
        p.a.qp.post_send(wr::write(index, [piece], far.remote().at(at as u64))).unwrap();
    }
    let mut done = Vec::new();
    p.until("completions", || {
        let before = done.len();
        p.a.cq.poll(&mut done, 1).unwrap();
        for completion in &done[before..] {
            if completion.status == Status::Success {
                let at = PART * completion.wr_id as usize;
                assert!(gpu.peek(&far, at, PART) == data, "a success without its bytes");
            }
        }
        done.len() == COUNT as usize
    });
    assert!(done.iter().enumerate().all(|(index, it)| it.wr_id == index as u64), "{done:?}");
    assert!(done.last().is_some_and(|last| last.status != Status::Success), "{done:?}");
    p.until("ends", || p.a.qp.error().is_some() && p.b.qp.error().is_some());
    let causes = [&p.a, &p.b].map(|side| side.qp.error().unwrap().cause);
    assert!(causes.contains(&EndCause::DeviceMemory), "{causes:?}");
    gpu.behave(Behaviour::default());
}

#[test]
fn failing_copy_ends_the_queue_pair_and_says_so() {
    everywhere(|gpu, p| {
        let longest_us = 300;
        fail(gpu, p, Behaviour { longest_us, fails_after: 9, ..Behaviour::default() });
    });
}

#[test]
fn refused_copy_ends_the_queue_pair_and_says_so() {
    everywhere(|gpu, p| fail(gpu, p, Behaviour { refuses_after: 12, ..Behaviour::default() }));
}

#[test]
fn another_queue_pair_of_the_engine_goes_on() {
    let gpu = Gpu::new();
    let p = Pair::new(&local());
    fail(&gpu, &p, Behaviour { refuses_after: 6, ..Behaviour::default() });
    let other = Pair::new(&local());
    let (near, far) = (device(&other.a, LEN), device(&other.b, LEN));
    let data = pattern(8, LEN);
    gpu.poke(&near, 0, &data);
    other.a.qp.post_send(wr::write(1, [near.slice(..).unwrap()], far.remote().at(0))).unwrap();
    other.successes(&other.a, 1);
    assert!(gpu.peek(&far, 0, LEN) == data);
}

#[test]
fn destroyed_context_ends_its_queue_pairs() {
    everywhere(|gpu, p| {
        let (context, addr) = gpu.context(LEN);
        // SAFETY: the engine is to survive that the memory is gone.
        let far = unsafe { p.b.pd.register_cuda(addr, LEN, Access::ALL) }.unwrap();
        let near = device(&p.a, LEN);
        gpu.slow_down(1_000, 3_000);
        for index in 0..8 {
            let piece = near.slice(..LEN / 2).unwrap();
            p.a.qp.post_send(wr::write(index, [piece], far.remote().at(0))).unwrap();
        }
        p.successes(&p.a, 1);
        gpu.destroy(context);
        let mut done = Vec::new();
        p.until("completions", || {
            p.a.cq.poll(&mut done, 8).unwrap();
            done.len() == 7
        });
        assert_ne!(done[6].status, Status::Success);
        p.until("an end", || p.b.qp.error().is_some());
        assert_eq!(p.b.qp.error().unwrap().cause, EndCause::DeviceMemory);
        let mut word = [0; 8];
        let error = far.read_at(0, &mut word).unwrap_err();
        assert!(error.to_string().contains("CUDA_ERROR_CONTEXT_IS_DESTROYED"), "{error}");
    });
}

#[test]
fn failing_atomic_gets_no_answer() {
    everywhere(|gpu, p| {
        let far = device(&p.b, 4096);
        far.write_at(0, &7_u64.to_ne_bytes()).unwrap();
        gpu.behave(Behaviour { fails_after: 1, ..Behaviour::default() });
        let result = p.a.memory.slice(..8).unwrap();
        p.a.qp.post_send(wr::fetch_add(1, result, far.remote().at(0), 1)).unwrap();
        let done = p.completions(&p.a, 1);
        assert_eq!(done[0].status, Status::RemoteOperational);
        assert_eq!(gpu.peek(&far, 0, 8), 7_u64.to_ne_bytes());
    });
}

#[test]
fn failing_read_gets_no_answer() {
    everywhere(|gpu, p| {
        let far = device(&p.b, LEN);
        gpu.behave(Behaviour { fails_after: 1, ..Behaviour::default() });
        let all = p.a.memory.slice(..LEN).unwrap();
        p.a.qp.post_send(wr::read(1, [all], far.remote().at(0))).unwrap();
        assert_ne!(p.completions(&p.a, 1)[0].status, Status::Success);
        p.until("an end", || p.b.qp.error().is_some());
        assert_eq!(p.b.qp.error().unwrap().cause, EndCause::DeviceMemory);
    });
}

#[test]
fn pointers_of_the_host_are_refused() {
    let _gpu = Gpu::new();
    let p = Pair::new(&local());
    let bytes = [0_u8; 64];
    let addr = bytes.as_ptr() as u64;
    // SAFETY: it is refused.
    let error = unsafe { p.a.pd.register_cuda(addr, 64, Access::ALL) }.unwrap_err();
    assert!(matches!(error, RegisterError::Cuda(CudaError::Pointer { .. })), "{error}");
    assert!(error.to_string().contains("CUDA does not know device memory"), "{error}");
    let region = device(&p.a, 4096);
    // SAFETY: as above.
    let beyond = unsafe { p.a.pd.register_cuda(region.addr(), 4097, Access::ALL) };
    assert!(matches!(beyond, Err(RegisterError::Cuda(CudaError::Pointer { .. }))));
    assert!(matches!(p.a.pd.alloc_cuda(3, 64, Access::ALL), Err(RegisterError::Cuda(_))));
    // SAFETY: as above.
    let empty = unsafe { p.a.pd.register_cuda(region.addr(), 0, Access::ALL) };
    assert!(matches!(empty, Err(RegisterError::Empty)));
}

#[test]
fn memory_of_two_contexts_is_no_region() {
    let gpu = Gpu::new();
    let p = Pair::new(&local());
    let (one, two) = (gpu.context(4096).1, gpu.context(4096).1);
    let (low, high) = (one.min(two), one.max(two));
    // SAFETY: it is refused.
    let error = unsafe { p.a.pd.register_cuda(low, (high - low) as usize + 1, Access::ALL) };
    assert!(matches!(error, Err(RegisterError::Cuda(CudaError::TwoContexts { .. }))));
}

#[test]
fn words_of_devices_are_not_accessed_directly() {
    let _gpu = Gpu::new();
    let p = Pair::new(&local());
    let region = device(&p.a, 4096);
    assert_eq!(region.load_u64(0), Err(MemoryError::Device));
    assert_eq!(region.store_u64(8, 1), Err(MemoryError::Device));
    region.write_at(9, b"braid").unwrap();
    let mut text = [0; 5];
    region.read_at(9, &mut text).unwrap();
    assert_eq!(&text, b"braid");
    assert!(matches!(region.read_at(4092, &mut text), Err(MemoryError::Bounds { .. })));
    let piece = region.slice(8..16).unwrap();
    assert_eq!(p.a.pd.check(piece, Access::LOCAL_WRITE), Ok(region.addr() + 8));
}

#[test]
fn deregistered_memory_is_left_alone() {
    everywhere(|gpu, p| {
        let (context, addr) = gpu.context(LEN);
        let near = device(&p.a, LEN);
        gpu.slow_down(500, 3_000);
        // SAFETY: the memory lives longer than the region.
        let far = unsafe { p.b.pd.register_cuda(addr, LEN, Access::ALL) }.unwrap();
        for index in 0..16 {
            let piece = near.slice(..LEN / 4).unwrap();
            p.a.qp.post_send(wr::write(index, [piece], far.remote().at(0))).unwrap();
        }
        p.successes(&p.a, 1);
        drop(far);
        let before = gpu.peek_at(addr, LEN / 4);
        let done = p.completions(&p.a, 15);
        assert_eq!(done.iter().filter(|it| it.status == Status::RemoteAccess).count(), 1);
        assert!(gpu.peek_at(addr, LEN / 4) == before, "it is written after the region is gone");
        gpu.destroy(context);
    });
}
