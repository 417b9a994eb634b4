//! Tests of the messages.

use super::*;

fn read(bytes: &[u8]) -> io::Result<Option<Request>> {
    receive(&mut &bytes[..])
}

#[test]
fn a_name_below_dev_is_a_node() {
    assert_eq!(Node::of_name("nvme0"), Some(Node::Controller));
    assert_eq!(Node::of_name("nvme0n12"), Some(Node::Block(12)));
    assert_eq!(Node::of_name("ng0n1"), Some(Node::Generic(1)));
    for other in
        ["nvme", "nvme1", "nvme0n0", "nvme0n01", "nvme0n+1", "nvme0n4294967296", "nvme0n1p1", "ng0", "nvme0c0n1"]
    {
        assert_eq!(Node::of_name(other), None, "{other}");
    }
}

#[test]
fn messages_arrive_as_they_were_sent() {
    let command = Command { queue: Queue::Io, opcode: 1, nsid: 1, cdw2: [2, 3], cdw10: [10, 11, 12, 13, 14, u32::MAX] };
    let longest = Data::Out(vec![0xff; MOST_DATA as usize]);
    for message in [Request::Execute(command, longest), Request::Execute(command, Data::In(7)), Request::Reset] {
        let mut bytes = Vec::new();
        send(&mut bytes, &message).unwrap();
        assert_eq!(read(&bytes).unwrap(), Some(message));
    }
    assert_eq!(read(&[]).unwrap(), None);
}

#[test]
fn no_message_is_longer_than_the_bound() {
    let data = Data::Out(vec![0; MOST_MESSAGE as usize]);
    let error = send(&mut Vec::new(), &data).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = read(&[0xff; 64]).unwrap_err();
    assert_eq!(error.to_string(), "the message is too long");
}

#[test]
fn cut_padded_and_drawn_bytes_are_no_message() {
    let mut bytes = Vec::new();
    send(&mut bytes, &Request::Execute(COMMAND, Data::Out(vec![1, 2, 3]))).unwrap();
    for end in 1..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "cut after {end}");
    }
    bytes.push(0);
    bytes[0] += 1;
    assert_eq!(read(&bytes).unwrap_err().to_string(), "the bytes are no message");
    // A generator of its own (xorshift): the crate has no further dependency.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..100_000 {
        let mut bytes = vec![0; 4];
        for _ in 0..state % 40 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(state as u8);
        }
        state = state.rotate_left(1);
        bytes[0] = bytes.len() as u8 - 4;
        if let Ok(Some(message)) = read(&bytes) {
            let mut again = Vec::new();
            send(&mut again, &message).unwrap();
            assert!(again.len() <= bytes.len(), "{message:?}");
        }
    }
}

const COMMAND: Command = Command { queue: Queue::Admin, opcode: 6, nsid: 0, cdw2: [0; 2], cdw10: [1, 0, 0, 0, 0, 0] };
