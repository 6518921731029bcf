//! Keyed connections: nothing that anybody sends is opened without the key, and nothing that is
//! inside breaks the reader.

use std::sync::LazyLock;

use braid_keys::{
    AllowList, Binding, Credentials, Date, HandshakeReply, Key, Listener, PrivateKey, SecretKey,
    Session, StaticKeys, Terms,
};
use braid_wire::{Connect, Packet, QpId, RailId, Token};

const BINDING: Binding = Binding { nonce: 7, cookie: 9 };
/// Where envelopes go.
const TO: (QpId, Token) = (QpId::new(0x123), Token(0xA1B2_C3D4));

/// A pre-shared key, and two ends that allow each other's.
static ENDS: LazyLock<[[Credentials; 2]; 2]> = LazyLock::new(|| {
    let shared = Credentials::from(Key::new([1; 32]));
    let private = [1, 2].map(|byte| PrivateKey::new([byte; 32]));
    let text = format!("{}\n{}\n", private[0].public(), private[1].public());
    let allowed = AllowList::parse(&text).expect("two public keys");
    let own = private.map(|private| StaticKeys::new(private, allowed.clone()).into());
    [[shared.clone(), shared], own]
});

/// The input as a message of a handshake, as an offer inside one, and as an envelope.
pub fn keyed(input: &[u8]) {
    ENDS.iter().for_each(|ends| between(ends, input));
}

fn between([a, b]: &[Credentials; 2], input: &[u8]) {
    let today = Date::FIRST;
    assert!(b.read(BINDING, today, [2; 32], input).is_err(), "a message without the key");
    let listener = Listener { binding: BINDING, key: b.key_id(BINDING), today };
    let (mut asking, denied) = a.initiate(listener, [3; 32], Terms::default(), input);
    assert_eq!(denied, None);
    assert!(asking.read(input).is_none(), "an answer without the key");
    let asked = b.read(BINDING, today, [2; 32], asking.message()).expect("it has the key");
    assert_eq!(asked.offer(), input);
    let Binding { nonce, cookie } = BINDING;
    if let Ok(connect) = Connect::decode_offer(nonce, cookie, asked.offer()) {
        let again = Connect::decode_offer(nonce, cookie, &connect.encode_offer());
        assert_eq!(again, Ok(connect), "lost in encoding");
    }
    let agreed = asked.settle(&Terms::default()).expect("both take the same");
    let (message, _) = asked.answer(agreed, input);
    let HandshakeReply { secrets, offer, .. } = asking.read(&message).expect("it has the key");
    assert_eq!(offer, input);
    let mut session = Session::new(secrets, agreed, TO);
    if let Ok(Packet::Sealed(header)) = Packet::decode(input) {
        let mut packet = input.to_vec();
        assert!(
            session.open(RailId::FIRST, header.number, &mut packet).is_err(),
            "an envelope without the keys"
        );
    }
}

/// The input as the text of a key file, and of a list of allowed keys.
pub fn key_text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match SecretKey::parse(text) {
        Ok(SecretKey::Shared(key)) => {
            assert_eq!(SecretKey::parse(&key.to_text()), Ok(SecretKey::Shared(key)));
        }
        Ok(SecretKey::Private(key)) => {
            assert_eq!(SecretKey::parse(&key.to_text()), Ok(SecretKey::Private(key)));
        }
        Err(_) => {}
    }
    if let Ok(allowed) = AllowList::parse(text) {
        let lines = allowed.keys().iter().map(|allowed| {
            let until = allowed.until.map(|day| format!("until {day}")).unwrap_or_default();
            format!("{} {until} # {}\n", allowed.key, allowed.name)
        });
        assert_eq!(AllowList::parse(&lines.collect::<String>()), Ok(allowed), "lost in writing");
    }
}
