//! Keyed connections: nothing that anybody sends is opened without the key, and nothing that is inside breaks the reader.

use braid_keys::{Answer, Asked, Asking, Binding, Key, Session, Terms};
use braid_wire::{Connect, Packet, QpId, Token};

const BINDING: Binding = Binding { nonce: 7, cookie: 9 };
/// Where envelopes go.
const TO: (QpId, Token) = (QpId::new(0x123), Token(0xA1B2_C3D4));

/// The input as a message of a handshake, as an offer inside one, and as an envelope.
pub fn keyed(input: &[u8]) {
    let key = Key::new([1; 32]);
    assert!(Asked::read(&key, BINDING, [2; 32], input).is_none(), "a message without the key");
    let mut asking = Asking::new(&key, BINDING, [3; 32], Terms::default(), input);
    assert!(asking.read(input).is_none(), "an answer without the key");
    let asked = Asked::read(&key, BINDING, [2; 32], asking.message()).expect("it has the key");
    assert_eq!(asked.offer(), input);
    let Binding { nonce, cookie } = BINDING;
    if let Ok(connect) = Connect::decode_offer(nonce, cookie, asked.offer()) {
        let again = Connect::decode_offer(nonce, cookie, &connect.encode_offer());
        assert_eq!(again, Ok(connect), "lost in encoding");
    }
    let agreed = asked.settle(&Terms::default()).expect("both take the same");
    let (message, _) = asked.answer(agreed, input);
    let Answer { secrets, offer, .. } = asking.read(&message).expect("it has the key");
    assert_eq!(offer, input);
    let mut session = Session::new(secrets, agreed, TO);
    if let Ok(Packet::Sealed(header)) = Packet::decode(input) {
        let mut packet = input.to_vec();
        assert!(session.open(header.number, &mut packet).is_err(), "an envelope without the keys");
    }
}
