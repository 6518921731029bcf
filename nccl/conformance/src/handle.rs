//! Handles of listening communicators.

/// A handle: 128 bytes, aligned as in NCCL.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) [u8; 128]);

impl Handle {
    /// Returns the handle as a line of hexadecimal digits.
    pub(crate) fn to_line(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses the result of `to_line`.
    ///
    /// # Errors
    /// If the line is invalid.
    pub(crate) fn from_line(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let byte =
            |at: usize| line.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let mut handle = Handle([0; 128]);
        for (i, place) in handle.0.iter_mut().enumerate() {
            *place = byte(2 * i).ok_or_else(|| format!("`{line}` is no handle"))?;
        }
        Ok(handle)
    }
}
