//! The sleep protocol of the rings, in all interleavings of both sides and all orders that the memory model allows: a side that sleeps
//! is signalled for what the other one published. A side that were not would never wake, which `loom` reports as a deadlock.

#![expect(clippy::unwrap_used, reason = "a test")]

use blk_api::request::Entry;
use blk_api::ring::{ClientEnd, Completed, SLOTS, ServerEnd};
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Notify};
use loom::thread;
use platform::{Memory, OutOfBounds};
use std::sync::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const ENTRIES: u32 = 2;
/// Requests that go round.
const REQUESTS: u64 = 2;
/// Bytes between two indices of a region.
const INDEX_BYTES: usize = 64;

/// A region whose indices and flag are atomics of the model. The bytes of slots are ordered by them and not modelled.
#[derive(Clone)]
struct Modelled(Arc<(Vec<AtomicU32>, Mutex<Vec<u8>>)>);

impl Modelled {
    fn new() -> Self {
        let indices = (0..SLOTS / INDEX_BYTES).map(|_| AtomicU32::new(0)).collect();
        Self(Arc::new((indices, Mutex::new(vec![0; ENTRIES as usize * size_of::<Entry>()]))))
    }

    fn index(&self, offset: usize) -> Result<&AtomicU32, OutOfBounds> {
        self.0.0.get(offset / INDEX_BYTES).filter(|_| offset.is_multiple_of(INDEX_BYTES)).ok_or(OutOfBounds)
    }
}

impl Memory for Modelled {
    platform::checked_slots!();

    fn len(&self) -> usize {
        SLOTS + ENTRIES as usize * size_of::<Entry>()
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        Ok(self.index(offset)?.load(Ordering::Acquire))
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.index(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_bytes(offset, &mut bytes)?;
        T::read_from_bytes(&bytes).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        self.write_bytes(offset, value.as_bytes())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        let (first, slots) = (offset.checked_sub(SLOTS).ok_or(OutOfBounds)?, self.0.1.lock().unwrap());
        bytes.copy_from_slice(slots.get(first..first + bytes.len()).ok_or(OutOfBounds)?);
        Ok(())
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let (first, mut slots) = (offset.checked_sub(SLOTS).ok_or(OutOfBounds)?, self.0.1.lock().unwrap());
        slots.get_mut(first..first + bytes.len()).ok_or(OutOfBounds)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Both ends, the client's memory first.
fn ends() -> (ClientEnd<Modelled>, ServerEnd<Modelled>) {
    let (client, server) = (Modelled::new(), Modelled::new());
    let client_end = ClientEnd::new(client.clone(), server.clone(), ENTRIES).unwrap();
    (client_end, ServerEnd::new(client, server, ENTRIES).unwrap())
}

/// The client submits while the server takes, which asks not to be signalled while it has entries if it `polls`.
fn submit(polls: bool) {
    loom::model(move || {
        let (mut client, mut server) = ends();
        let signal = Arc::new(Notify::new());
        let wait = Arc::clone(&signal);
        let serving = thread::spawn(move || {
            let mut taken = 0;
            while taken < REQUESTS {
                while let Some(entry) = server.take().unwrap() {
                    assert_eq!(entry.user_data, taken);
                    taken += 1;
                    if polls {
                        server.awake().unwrap();
                    }
                }
                if taken < REQUESTS && !server.prepare_sleep().unwrap() {
                    wait.wait();
                }
            }
        });
        for user_data in 0..REQUESTS {
            assert!(client.submit(&Entry { user_data, ..Entry::default() }).unwrap());
            if client.publish().unwrap() {
                signal.notify();
            }
        }
        serving.join().unwrap();
    });
}

#[test]
fn a_server_that_is_always_signalled_misses_no_entry() {
    submit(false);
}

#[test]
fn a_server_that_polls_misses_no_entry() {
    submit(true);
}

#[test]
fn a_client_misses_no_completion() {
    loom::model(|| {
        let (mut client, mut server) = ends();
        let signal = Arc::new(Notify::new());
        let wait = Arc::clone(&signal);
        let waiting = thread::spawn(move || {
            let mut completed = 0;
            while completed < REQUESTS {
                match client.complete().unwrap() {
                    Some(answer) => {
                        assert_eq!(answer.user_data, completed);
                        completed += 1;
                        client.awake().unwrap();
                    }
                    None if client.prepare_sleep().unwrap() => {}
                    None => wait.wait(),
                }
            }
        });
        for user_data in 0..REQUESTS {
            server.reply(&Completed { user_data, ..Completed::default() });
            if server.publish().unwrap() {
                signal.notify();
            }
        }
        waiting.join().unwrap();
    });
}
