/* What the precompiled standard library hides from ThreadSanitizer.
 *
 * std's locks take their fast path inline, in code that is instrumented with the crate that uses it. Their slow paths
 * lie in libstd.rlib, which is not instrumented: the order that they establish between threads would be missed, and
 * everything behind a contended lock reported as a race. The linker's --wrap leads the calls from instrumented code
 * through here, where the order is told. The names, mangled, come from `cargo xtask sanitize`. */

#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define NAME(prefix, symbol) __asm__(prefix symbol)

/* A contended lock is taken: what its last owner released at the same word happened before. */
#define CONTENDED(name, symbol)                                   \
    void real_##name(void *lock) NAME("__real_", symbol);         \
    void wrap_##name(void *lock) NAME("__wrap_", symbol);         \
    void wrap_##name(void *lock) {                                \
        real_##name(lock);                                        \
        __tsan_acquire(lock);                                     \
    }

CONTENDED(mutex_lock, MUTEX_LOCK)
CONTENDED(rwlock_read, RWLOCK_READ)
CONTENDED(rwlock_write, RWLOCK_WRITE)

/* Waiting gives the mutex up and takes it again, inside libstd. */
void real_wait(void *condvar, void *mutex) NAME("__real_", CONDVAR_WAIT);
void wrap_wait(void *condvar, void *mutex) NAME("__wrap_", CONDVAR_WAIT);
void wrap_wait(void *condvar, void *mutex) {
    __tsan_release(mutex);
    real_wait(condvar, mutex);
    __tsan_acquire(mutex);
}

bool real_wait_timeout(void *, void *, uint64_t, uint32_t) NAME("__real_", CONDVAR_WAIT_TIMEOUT);
bool wrap_wait_timeout(void *, void *, uint64_t, uint32_t) NAME("__wrap_", CONDVAR_WAIT_TIMEOUT);
bool wrap_wait_timeout(void *condvar, void *mutex, uint64_t seconds, uint32_t nanos) {
    __tsan_release(mutex);
    bool in_time = real_wait_timeout(condvar, mutex, seconds, nanos);
    __tsan_acquire(mutex);
    return in_time;
}

/* A scoped thread has ended. The counter is one of the first two words; the scope reads it inline. */
void real_scoped_end(uint64_t *scope, bool panicked) NAME("__real_", SCOPED_END);
void wrap_scoped_end(uint64_t *scope, bool panicked) NAME("__wrap_", SCOPED_END);
void wrap_scoped_end(uint64_t *scope, bool panicked) {
    __tsan_release(&scope[0]);
    __tsan_release(&scope[1]);
    real_scoped_end(scope, panicked);
}

/* `Once`: who finds it complete, by an inline load, comes after its closure. That is told between the closure's end and
 * the store that others see, so in a closure around it. The words of a vtable: the destructor, size and alignment,
 * `call_once` and `call_mut`, which is all that `Once::call` uses. */
struct once_vtable {
    const void *unused[4];
    void (*call_mut)(void *closure, void *state);
};

struct told_closure {
    void *once, *closure;
    const struct once_vtable *vtable;
};

static void tell_completion(void *told_closure, void *state) {
    struct told_closure *told = told_closure;
    told->vtable->call_mut(told->closure, state);
    __tsan_release(told->once);
}

static const struct once_vtable TOLD = {.call_mut = tell_completion};

void real_once(void *, bool, void *, const struct once_vtable *, void *) NAME("__real_", ONCE);
void wrap_once(void *, bool, void *, const struct once_vtable *, void *) NAME("__wrap_", ONCE);
void wrap_once(void *once, bool ignore_poison, void *closure, const struct once_vtable *vtable, void *caller) {
    struct told_closure told = {once, closure, vtable};
    real_once(once, ignore_poison, &told, &TOLD, caller);
    __tsan_acquire(once);
}
