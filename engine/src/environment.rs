//! The environment variables of Braid, `BRAID_..`, for programs that do not know Braid.
//!
//! All parts of Braid that are loaded into other programs read them here. A program may have more
//! rights than the user who starts it (setuid, setgid, file capabilities). That user controls its
//! environment, and must not choose keys, interfaces, files or injected faults for it. Such a
//! program finds no variable set, and can use its own configuration instead.
//!
//! ```
//! use braid::environment;
//!
//! // As `std::env::var_os`, in a program with the rights of its user.
//! assert_eq!(environment::variable("BRAID_NO_SUCH_SETTING"), None);
//! ```

use std::env;
use std::ffi::OsString;

/// The value of an environment variable. `None`: it is not set, or the program has more rights than
/// its user.
pub fn variable(name: &str) -> Option<OsString> {
    let value = env::var_os(name)?;
    if is_ignored() {
        tracing::warn!(
            name,
            "environment variable ignored: the program has more rights than its user"
        );
        return None;
    }
    Some(value)
}

/// The names of all variables that begin with `prefix`, if they are not ignored.
pub fn names(prefix: &str) -> Vec<String> {
    let all = env::vars_os().filter(|_| !is_ignored());
    let named = all.map(|(name, _)| name.to_string_lossy().into_owned());
    named.filter(|name| name.starts_with(prefix)).collect()
}

/// A variable that launchers of parallel programs set. The program itself asks for its rank in this
/// way, so the variable is read whatever the rights of the program. Braid's own variables are read
/// by [`variable`].
pub(crate) fn of_launcher(name: &str) -> Option<String> {
    match name.starts_with("BRAID_") {
        true => variable(name)?.into_string().ok(),
        false => env::var(name).ok(),
    }
}

/// Whether the system has started the program in secure-execution mode (`AT_SECURE`, ld.so(8)).
fn is_ignored() -> bool {
    // SAFETY: it only reads what the kernel has handed to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
