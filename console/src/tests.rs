use super::*;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use platform::fake::Ram;
use report::frame::{Kind, Piece, Reader};
use report::ring::{self, Producer};

struct Recorded(Vec<u8>);

impl Uart for Recorded {
    async fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

fn ring(component: u16) -> (Producer<Ram>, Ring<Ram>) {
    let memory = Ram::new(ring::region_bytes(4096) as usize);
    let consumer = Consumer::new(memory.clone()).unwrap();
    (Producer::new(memory).unwrap(), Ring { component, consumer, lost_reported: 0 })
}

fn sent(line: &Recorded) -> Vec<(u16, Kind, Vec<u8>)> {
    let mut frames = Vec::new();
    Reader::new().feed(&line.0, &mut |piece| match piece {
        Piece::Frame { component, kind, bytes } => frames.push((component, kind, bytes.to_vec())),
        Piece::Noise(bytes) => panic!("noise: {bytes:?}"),
    });
    frames
}

#[test]
fn records_reach_the_line_with_their_component_and_kind() {
    let (mut producer, ring) = ring(5);
    producer.push(ring::Kind::Log, b"log").unwrap();
    producer.push(ring::Kind::Report, b"report").unwrap();
    let mut line = Recorded(Vec::new());
    let mut rings = [ring];
    assert!(done(send_a_round(&mut rings, &mut line)));
    assert!(!done(send_a_round(&mut rings, &mut line)));
    assert_eq!(sent(&line), [(5, Kind::Log, b"log".to_vec()), (5, Kind::Report, b"report".to_vec())]);
}

#[test]
fn a_flooding_component_delays_the_others_by_its_turn_alone() {
    let ((mut flood, flooded), (mut quiet, other)) = (ring(1), ring(2));
    for _ in 0..200 {
        flood.push(ring::Kind::Log, b"x").unwrap();
    }
    quiet.push(ring::Kind::Log, b"heard").unwrap();
    let mut line = Recorded(Vec::new());
    assert!(done(send_a_round(&mut [flooded, other], &mut line)));
    let frames = sent(&line);
    assert_eq!(frames.len(), RECORDS_A_TURN + 1);
    assert_eq!(frames[RECORDS_A_TURN].0, 2);
}

#[test]
fn lost_bytes_are_reported_once() {
    let (mut producer, ring) = ring(3);
    for _ in 0..6 {
        producer.push(ring::Kind::Log, &[0; 996]).unwrap();
    }
    let mut line = Recorded(Vec::new());
    let mut rings = [ring];
    while done(send_a_round(&mut rings, &mut line)) {}
    let frames = sent(&line);
    assert_eq!(frames.iter().filter(|frame| frame.1 == Kind::Lost).count(), 1);
    assert_eq!(frames[0], (3, Kind::Lost, 2000u64.to_le_bytes().to_vec()));
}
