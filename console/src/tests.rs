use super::*;
use alloc::rc::Rc;
use alloc::vec;
use core::cell::RefCell;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use platform::OutOfBounds;
use report::frame::{Kind, Piece, Reader};
use report::ring::{self, Producer};

#[derive(Clone)]
struct Shared(Rc<RefCell<Vec<u8>>>);

type Access<T> = core::result::Result<T, OutOfBounds>;

impl Shared {
    fn word(&self, offset: usize) -> [u8; 4] {
        self.0.borrow()[offset..offset + 4].try_into().unwrap()
    }
}

impl Memory for Shared {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }
    fn load_acquire_u32(&self, offset: usize) -> Access<u32> {
        Ok(u32::from_le_bytes(self.word(offset)))
    }
    fn store_release_u32(&self, offset: usize, value: u32) -> Access<()> {
        self.write_bytes(offset, &value.to_le_bytes())
    }
    fn fence(&self) {}
    fn read<T: zerocopy::FromBytes>(&self, offset: usize) -> Access<T> {
        let memory = self.0.borrow();
        T::read_from_bytes(&memory[offset..offset + size_of::<T>()]).map_err(|_| OutOfBounds)
    }
    fn write<T: zerocopy::IntoBytes + zerocopy::Immutable>(&self, offset: usize, value: &T) -> Access<()> {
        self.write_bytes(offset, value.as_bytes())
    }
    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Access<()> {
        bytes.copy_from_slice(&self.0.borrow()[offset..offset + bytes.len()]);
        Ok(())
    }
    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Access<()> {
        self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

struct Recorded(Vec<u8>);

impl Line for Recorded {
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

fn ring(component: u16) -> (Producer<Shared>, Ring<Shared>) {
    let memory = Shared(Rc::new(RefCell::new(vec![0; ring::region_bytes(4096) as usize])));
    let consumer = Consumer::new(memory.clone()).unwrap();
    (Producer::new(memory).unwrap(), Ring { component, consumer, lost_told: 0 })
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
fn lost_bytes_are_told_once() {
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
