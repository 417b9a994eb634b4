//! Cost of a 4 KiB I/O on the build machine: the model alone, with a driver that only rings, takes completions and
//! rings again.

#[expect(dead_code, reason = "the tests use more of the driver")]
#[path = "../../tests/controller/driver.rs"]
mod driver;

use std::time::Instant;

use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid};
use sim_nvme::config::Cache;
use sim_nvme::{Config, Profile};

use driver::{Driver, config};

const DEPTH: u16 = 32;
const IOS: u32 = 1_000_000;

fn main() {
    measure("writes", None, nvm::write);
    measure("writes into a cache", Some(Cache { bytes: 1 << 20, linger_ns: 1_000_000 }), nvm::write);
    measure("reads", None, nvm::read);
}

type Build = fn(Cid, Nsid, Blocks, nvme_spec::DataPointer) -> nvme_spec::Sqe;

/// Keeps 32 commands outstanding on one queue until a million are done.
fn measure(name: &str, cache: Option<Cache>, build: Build) {
    let mut driver = Driver::with_queues(Config { cache, profile: Profile::open_express(), ..config() }, 1);
    let buffers: Vec<_> = (0..DEPTH).map(|_| driver.buffer(4096).1).collect();
    fill(&mut driver);
    let mut place = 1_u64;
    let mut next = |driver: &mut Driver, cid: Cid| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let blocks = Blocks::new(Lba((place >> 40) % 16_000 * 8), 8).expect("within the namespace");
        driver.submit_as(1, build(cid, Nsid(1), blocks, buffers[usize::from(cid.0)]));
    };
    (0..DEPTH).for_each(|cid| next(&mut driver, Cid(cid)));
    driver.ring(1);
    let start = Instant::now();
    let mut done = 0;
    while done < IOS {
        let mut taken = 0;
        while let Some(cqe) = driver.peek(1) {
            next(&mut driver, cqe.cid());
            taken += 1;
        }
        if taken > 0 {
            driver.ring_head(1);
            driver.ring(1);
            done += taken;
        } else {
            assert!(driver.step(), "commands are outstanding");
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(done);
    println!("4 KiB {name}: {ns:.0} ns each, {:.0} a second", 1e9 / ns);
}

/// Writes every block once, so that reads find data and writes need no new memory.
fn fill(driver: &mut Driver) {
    let (_, data) = driver.buffer(1 << 19);
    for start in (0..driver::NAMESPACE_BYTES / 512).step_by(1024) {
        let blocks = Blocks::new(Lba(start), 1024).expect("within the namespace");
        assert!(driver.execute(1, nvm::write(Cid(0), Nsid(1), blocks, data)).status().is_success());
    }
}
