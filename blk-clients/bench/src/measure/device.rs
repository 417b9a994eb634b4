//! Measures requests through [`Device`], as programs make them: one task submits, and waits for the oldest request when
//! enough are in flight.

use super::{Measured, Shape, Unmeasured, settle};
use crate::choice::Choice;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use blk_client::{Device, Opcode, Request, WindowRange};
use platform::{Platform, marker};
use workload::Bench;

/// Measures requests through `device`.
pub(super) async fn run<P: Platform>(platform: &P, device: &Device<P>, bench: &Bench) -> Result<Measured, Unmeasured> {
    let shape = Shape::new(device.geometry(), bench).ok_or(Unmeasured::Configuration)?;
    let range = |index| Some((shape.opcode(index), device.window().lease(bench.block_bytes as usize)?));
    let ranges: Vec<_> = (0..shape.depth).map(range).collect::<Option<_>>().ok_or(Unmeasured::Configuration)?;
    let load = Load { device, shape, ranges, choice: Choice::of(bench) };
    device.run(load.run(load.shape.warm_up())).await?;
    let before = device.doorbells().await?;
    settle(platform, device.options()).await;
    platform.marker(marker::BEGIN);
    device.run(load.run(bench.operations)).await?;
    platform.marker(marker::END);
    settle(platform, device.options()).await;
    let doorbells = device.doorbells().await?.saturating_sub(before);
    Ok(Measured { operations: bench.operations, doorbells })
}

struct Load<'a, P: Platform> {
    device: &'a Device<P>,
    shape: Shape,
    /// A range for each request in flight, and the request's operation.
    ranges: Vec<(Opcode, WindowRange<P::Memory>)>,
    choice: Choice,
}

impl<P: Platform> Load<'_, P> {
    /// Makes `operations` requests, as many at a time as the depth, until all are completed.
    async fn run(&self, operations: u64) -> Result<(), Unmeasured> {
        let mut requests = VecDeque::with_capacity(self.ranges.len());
        let mut ranges = self.ranges.iter().cycle();
        for number in 0..operations {
            if requests.len() == self.ranges.len()
                && let Some(oldest) = requests.pop_front()
            {
                // Its range is the next one.
                oldest.await?;
            }
            let Some((opcode, range)) = ranges.next() else { return Err(Unmeasured::Configuration) };
            requests.push_back(self.request(*opcode, range, number));
        }
        for request in requests {
            request.await?;
        }
        Ok(())
    }

    fn request(&self, opcode: Opcode, range: &WindowRange<P::Memory>, number: u64) -> Request<P> {
        let (place, parts) = (self.shape.place(number), [range.whole()]);
        let request = match opcode {
            Opcode::Write => self.device.write(place, &parts),
            _ => self.device.read(place, &parts),
        };
        self.choice.apply(request)
    }
}
