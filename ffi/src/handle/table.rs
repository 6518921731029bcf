//! The table of the objects behind handles.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use arc_swap::{ArcSwapOption, Guard};

/// Number of slots in the first chunk. Each further chunk has twice as many.
const FIRST: usize = 64;
/// Number of chunks: 16,777,152 slots in all, about as many as an engine has memory keys.
const CHUNKS: usize = 18;

/// The contents of a slot and its generation, which distinguishes them from earlier contents.
pub(super) struct Entry<T> {
    generation: u32,
    /// `None` while a thread decides whether it can close the object.
    value: Option<T>,
}

struct Slot<T> {
    /// The generation of the present or next contents. It is checked first, so that a stale handle
    /// never holds an object that another thread may be closing.
    generation: AtomicU32,
    entry: ArcSwapOption<Entry<T>>,
}

/// The objects of one kind. A look-up takes no lock, and its result stays valid until it is
/// released.
///
/// A thread that closes an object first withdraws it from all others, then decides. Concurrent
/// look-ups wait for these few instructions. So no thread can start to use the object or create a
/// child between the decision and the end, and no thread finds an object closed that then stays
/// open.
///
/// Slots never move and are never freed. A stale handle always leads to a slot with another
/// generation.
pub(crate) struct Table<T> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    vacant: Mutex<Vacant>,
}

/// The slots for new objects.
struct Vacant {
    /// Free slots.
    reusable: Vec<u32>,
    /// Number of slots that were ever used.
    used: u32,
}

/// A slot and a generation: the contents of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// An object in use.
pub(crate) struct Held<T>(Guard<Option<Arc<Entry<T>>>>);

/// The reason why an object was not removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused<E> {
    Gone,
    InUse,
    Unwilling(E),
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        let vacant = Mutex::new(Vacant { reusable: Vec::new(), used: 0 });
        Table { chunks: [const { OnceLock::new() }; CHUNKS], vacant }
    }

    /// Returns `None` if the table is full.
    pub(super) fn insert(&self, value: T) -> Option<Place> {
        let index = self.vacancy()?;
        let (chunk, offset) = locate(index)?;
        let slots =
            self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| Slot::new()).collect());
        let slot = &slots[offset];
        let generation = slot.generation.load(Ordering::Acquire);
        slot.entry.store(Some(Arc::new(Entry { generation, value: Some(value) })));
        Some(Place { index, generation })
    }

    fn vacancy(&self) -> Option<u32> {
        let mut vacant = self.vacant();
        if let Some(index) = vacant.reusable.pop() {
            return Some(index);
        }
        let index = vacant.used;
        locate(index)?;
        vacant.used += 1;
        Some(index)
    }

    fn vacant(&self) -> MutexGuard<'_, Vacant> {
        // The state is consistent between any two statements.
        self.vacant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` if the place is stale.
    fn slot(&self, place: Place) -> Option<&Slot<T>> {
        let (chunk, offset) = locate(place.index)?;
        let slot = self.chunks[chunk].get()?.get(offset)?;
        (slot.generation.load(Ordering::Acquire) == place.generation).then_some(slot)
    }

    pub(super) fn get(&self, place: Place) -> Option<Held<T>> {
        let slot = self.slot(place)?;
        loop {
            let found = slot.entry.load();
            let entry = found.as_ref().filter(|entry| entry.generation == place.generation)?;
            if entry.value.is_some() {
                return Some(Held(found));
            }
            thread::yield_now();
        }
    }

    /// Removes an object if no thread uses it and it is `willing`.
    pub(super) fn remove<E>(
        &self,
        place: Place,
        willing: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<T, Refused<E>> {
        let slot = self.slot(place).ok_or(Refused::Gone)?;
        let entry = self.withdraw(slot, place).ok_or(Refused::Gone)?;
        // The swap has converted the loans of other threads into counted references.
        let Entry { value, generation } = Arc::try_unwrap(entry).map_err(|entry| {
            slot.entry.store(Some(entry));
            Refused::InUse
        })?;
        let value = value.expect("only what is open is withdrawn");
        if let Err(unwilling) = willing(&value) {
            slot.entry.store(Some(Arc::new(Entry { generation, value: Some(value) })));
            return Err(Refused::Unwilling(unwilling));
        }
        slot.entry.store(None);
        slot.generation.store(generation.wrapping_add(1), Ordering::Release);
        self.vacant().reusable.push(place.index);
        Ok(value)
    }

    /// Withdraws an open object from all threads, until the slot is stored to again.
    fn withdraw(&self, slot: &Slot<T>, place: Place) -> Option<Arc<Entry<T>>> {
        let undecided = Arc::new(Entry { generation: place.generation, value: None });
        loop {
            let open = Guard::into_inner(self.get(place)?.0)?;
            let previous = slot.entry.compare_and_swap(&open, Some(undecided.clone()));
            if previous.as_ref().is_some_and(|previous| Arc::ptr_eq(previous, &open)) {
                return Some(open);
            }
        }
    }
}

impl<T> Slot<T> {
    const fn new() -> Self {
        Slot { generation: AtomicU32::new(1), entry: ArcSwapOption::const_empty() }
    }
}

/// Returns the chunk of a slot and its position there.
fn locate(index: u32) -> Option<(usize, usize)> {
    let position = index as usize + FIRST;
    let chunk = (position / FIRST).ilog2() as usize;
    (chunk < CHUNKS).then_some((chunk, position - (FIRST << chunk)))
}

impl<T> std::ops::Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        let value = self.0.as_ref().and_then(|entry| entry.value.as_ref());
        value.expect("only what is open is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn willing<T>(_: &T) -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn chunks_follow_each_other_without_gaps() {
        assert_eq!(locate(0), Some((0, 0)));
        assert_eq!(locate(63), Some((0, 63)));
        assert_eq!(locate(64), Some((1, 0)));
        assert_eq!(locate(191), Some((1, 127)));
        assert_eq!(locate(192), Some((2, 0)));
        let last = (64 * ((1 << CHUNKS) - 1)) - 1;
        assert_eq!(locate(last), Some((CHUNKS - 1, (64 << (CHUNKS - 1)) - 1)));
        assert_eq!(locate(last + 1), None);
        assert_eq!(locate(u32::MAX), None);
    }

    #[test]
    fn a_stale_place_is_refused_when_its_slot_is_used_again() {
        let table = Table::new();
        let old = table.insert("old").unwrap();
        assert_eq!(table.remove(old, willing), Ok("old"));
        assert!(table.get(old).is_none());
        let new = table.insert("new").unwrap();
        assert_eq!((new.index, new.generation), (old.index, old.generation + 1));
        assert!(table.get(old).is_none());
        assert_eq!(table.remove(old, willing), Err(Refused::Gone));
        assert_eq!(*table.get(new).unwrap(), "new");
    }

    #[test]
    fn what_is_in_use_or_unwilling_stays() {
        let table = Table::new();
        let place = table.insert(1).unwrap();
        let held = table.get(place).unwrap();
        assert_eq!(table.remove(place, willing), Err(Refused::InUse));
        assert_eq!(*table.get(place).unwrap(), 1);
        drop(held);
        assert_eq!(table.remove(place, |_| Err("no")), Err(Refused::Unwilling("no")));
        assert_eq!(table.remove(place, willing), Ok(1));
    }

    #[test]
    fn whoever_asks_for_an_object_that_is_open_gets_it_while_others_fail_to_close_it() {
        let table = &Table::new();
        let place = table.insert(1).unwrap();
        let held = table.get(place).unwrap();
        std::thread::scope(|scope| {
            let closing = [false, true].map(|unwilling| {
                scope.spawn(move || {
                    let willing = |_: &i32| if unwilling { Err(()) } else { Ok(()) };
                    (0..100_000).all(|_| table.remove(place, willing).is_err())
                })
            });
            let mut asked = 0;
            while closing.iter().any(|thread| !thread.is_finished()) {
                assert_eq!(table.get(place).map(|found| *found), Some(1), "after {asked} times");
                asked += 1;
            }
            closing.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
        });
        drop(held);
        assert_eq!(table.remove(place, willing), Ok(1));
    }

    #[test]
    fn an_object_is_not_closed_under_one_who_has_just_made_something_with_it() {
        let table = &Table::new();
        let place = table.insert(AtomicU32::new(0)).unwrap();
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let closed = table.remove(place, |children| {
                let none = children.load(Ordering::SeqCst) == 0;
                // Runs between the check and the end of the object, if possible.
                scope.spawn(move || {
                    let made = table.get(place).map(|found| found.fetch_add(1, Ordering::SeqCst));
                    let _ = tell.send(made);
                });
                let _ = told.recv_timeout(std::time::Duration::from_millis(100));
                if none { Ok(()) } else { Err(()) }
            });
            let children = closed.expect("nobody uses it").into_inner();
            assert_eq!(children, 0, "closed, and it has a child");
        });
    }

    #[test]
    fn many_threads_open_use_and_close() {
        let table = Table::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let value = Box::new((thread, round));
                        let place = table.insert(value).unwrap();
                        assert_eq!(**table.get(place).unwrap(), (thread, round));
                        assert_eq!(*table.remove(place, willing).unwrap(), (thread, round));
                        assert!(table.get(place).is_none());
                    }
                });
            }
        });
    }
}
