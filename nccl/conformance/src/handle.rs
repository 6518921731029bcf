//! What a listener hands to those that connect to it.

/// 128 bytes, aligned as NCCL's.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) [u8; 128]);

impl Handle {
    /// As a line of hexadecimal digits.
    pub(crate) fn to_line(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The other way round.
    ///
    /// # Errors
    /// It is no such line.
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
