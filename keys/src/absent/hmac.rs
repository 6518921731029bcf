//! `aws_lc_rs::hmac` without its functions.

pub(crate) struct MacHash;
pub(crate) const HMAC_SHA256: MacHash = MacHash;

pub(crate) use self::AbsentMacKey as Key;

pub(crate) struct AbsentMacKey;

impl AbsentMacKey {
    pub(crate) fn new(_: MacHash, _: &[u8]) -> Self {
        AbsentMacKey
    }
}

#[derive(Clone)]
pub(crate) struct Context;

impl Context {
    pub(crate) fn with_key(_: &AbsentMacKey) -> Self {
        Context
    }

    pub(crate) fn update(&mut self, _: &[u8]) {}

    pub(crate) fn sign(self) -> [u8; 32] {
        [0; 32]
    }
}
