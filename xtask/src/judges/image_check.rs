//! Checks tenants' writes in the image on the build machine.
//!
//! A tenant that verifies stamps every block with its own name, the block's place, and how often it was written (`bench::stamp`);
//! after zeroing or discarding a block it stamps it again. So each block of the image shows whether it is in its place, and the
//! same code judges it here and in the machine. A block without a stamp must be unchanged since before the run: no write went
//! astray. The blocks of an attacker are not judged.

use crate::machine::disk;
use anyhow::{Context, Result};
use bench::stamp::{MAGIC, Stamp, tenant_number};
use capdl::Scenario;
use capdl::scenario::{Content, Tenant, Workload};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Sentences about one image, at most.
const SHOWN: usize = 3;

/// Differences in the image at `path`, which is namespace `nsid` of `controller`, one sentence each.
pub fn differences(scenario: &Scenario, controller: &str, nsid: u32, path: &Path) -> Result<Vec<String>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let reader = BufReader::with_capacity(1 << 20, file);
    differences_in(scenario, controller, nsid, reader).with_context(|| format!("cannot read {}", path.display()))
}

/// Differences in the image that `reader` reads from its first byte on, as [`differences`].
pub fn differences_in(scenario: &Scenario, controller: &str, nsid: u32, mut reader: impl Read) -> Result<Vec<String>> {
    let is_there = |tenant: &&Tenant| tenant.controller == controller && tenant.namespace == nsid;
    let tenants: Vec<_> = scenario.tenants.iter().filter(is_there).map(Owner::new).collect();
    let (_, controller) = scenario.controller(controller).context("the controller is gone")?;
    let namespace = controller.namespaces.get((nsid as usize).wrapping_sub(1)).context("the namespace is gone")?;
    let mut check = ImageCheck { owners: tenants, content: namespace.content, wrong: Vec::new(), wrong_blocks: 0 };
    let mut block = vec![0; namespace.block_bytes as usize];
    for lba in 0..namespace.blocks() {
        reader.read_exact(&mut block).context("the image ends before the namespace")?;
        check.at(lba, &block);
    }
    Ok(check.finish())
}

/// A tenant and its blocks in the image.
struct Owner<'a> {
    tenant: &'a Tenant,
    number: u64,
    stamped: u64,
}

impl<'a> Owner<'a> {
    fn new(tenant: &'a Tenant) -> Self {
        Self { tenant, number: tenant_number(&tenant.name), stamped: 0 }
    }

    /// The number that the tenant stamps on block `lba`, if that block is its own. The tenant counts from the first block of its
    /// first extent on, through all of its extents.
    fn stamped_as(&self, lba: u64) -> Option<u64> {
        let mut next = self.tenant.extents.first()?.first;
        for extent in &self.tenant.extents {
            match lba.checked_sub(extent.first).filter(|offset| *offset < extent.blocks) {
                Some(offset) => return next.checked_add(offset),
                None => next = next.checked_add(extent.blocks)?,
            }
        }
        None
    }

    /// Whether the image must have stamps of this tenant.
    fn must_write(&self) -> bool {
        let writes = matches!(&self.tenant.workload, Workload::Bench(bench) if bench.verify);
        writes && self.tenant.writable
    }
}

/// State of the check of an image.
struct ImageCheck<'a> {
    owners: Vec<Owner<'a>>,
    content: Content,
    wrong: Vec<String>,
    wrong_blocks: u64,
}

impl ImageCheck<'_> {
    fn at(&mut self, lba: u64, block: &[u8]) {
        let stamped = block.first_chunk().is_some_and(|word| u64::from_le_bytes(*word) == MAGIC);
        let content = self.content;
        let untouched = || disk::is_initial(content, lba.saturating_mul(block.len() as u64), block);
        let owner = self.owners.iter_mut().find_map(|owner| Some((owner.stamped_as(lba)?, owner)));
        let wrong = match owner {
            Some((_, owner)) if matches!(owner.tenant.workload, Workload::Flood(_) | Workload::Hostile(_)) => None,
            Some((number, owner)) if stamped => {
                owner.stamped += 1;
                wrong_stamp(owner, lba, number, block)
            }
            Some((_, owner)) => {
                (!untouched()).then(|| format!("block {lba} of {} changed without its stamp", owner.tenant.name))
            }
            None => (stamped || !untouched()).then(|| format!("block {lba}, which is nobody's, was written")),
        };
        if let Some(wrong) = wrong {
            self.wrong_blocks += 1;
            if self.wrong.len() < SHOWN {
                self.wrong.push(wrong);
            }
        }
    }

    fn finish(mut self) -> Vec<String> {
        let more = self.wrong_blocks.saturating_sub(self.wrong.len() as u64);
        if more > 0 {
            self.wrong.push(format!("{more} more blocks of the image are wrong"));
        }
        for owner in self.owners.iter().filter(|owner| owner.must_write() && owner.stamped == 0) {
            self.wrong.push(format!("the image holds no block that {} wrote", owner.tenant.name));
        }
        self.wrong
    }
}

fn wrong_stamp(owner: &Owner<'_>, lba: u64, number: u64, block: &[u8]) -> Option<String> {
    let name = &owner.tenant.name;
    match Stamp::of(block) {
        None => Some(format!("block {lba} of {name} is damaged")),
        Some(stamp) if stamp.tenant != owner.number => {
            Some(format!("block {lba} of {name} holds another tenant's block"))
        }
        Some(stamp) if stamp.lba != number => {
            Some(format!("block {lba} of {name}, its own {number}, holds {}", stamp.lba))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blk_api::extent::Extent;

    fn scenario() -> Scenario {
        let text = "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\n\
                    size = \"32K\"\ncontent = \"pattern\"\n\
                    [[tenant]]\nname = \"w\"\nqueue_pairs = 1\nextents = [{ first = 0, blocks = 16 }]\n\
                    program.name = \"bench\"\n[tenant.program.config]\n";
        Scenario::parse(text, "t.toml").unwrap()
    }

    /// Differences after `change` was made to the image.
    fn differences_after(change: impl Fn(&mut [u8])) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-1.img");
        disk::create(&path, 32 << 10, Content::Pattern).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        differences(&scenario(), "a", 1, &path).unwrap()
    }

    fn stamp(bytes: &mut [u8], at: usize, tenant: &str, lba: u64) {
        let stamp = Stamp { tenant: tenant_number(tenant), lba, generation: 1 };
        stamp.fill(&mut bytes[at * 512..(at + 1) * 512]);
    }

    #[test]
    fn blocks_in_their_places_are_right() {
        let differences = differences_after(|bytes| (0..16).for_each(|lba| stamp(bytes, lba, "w", lba as u64)));
        assert!(differences.is_empty(), "{differences:?}");
    }

    #[test]
    fn a_tenant_counts_on_from_its_first_extent_through_the_others() {
        let mut scenario = scenario();
        let tenant = &mut scenario.tenants[0];
        tenant.extents = vec![Extent::new(40, 4), Extent::new(8, 4)];
        let owner = Owner::new(tenant);
        assert_eq!([39, 40, 43, 44].map(|lba| owner.stamped_as(lba)), [None, Some(40), Some(43), None]);
        assert_eq!([7, 8, 11, 12].map(|lba| owner.stamped_as(lba)), [None, Some(44), Some(47), None]);
    }

    #[test]
    fn every_kind_of_wrong_block_is_named() {
        let wrong = differences_after(|bytes| {
            stamp(bytes, 0, "w", 0);
            stamp(bytes, 1, "w", 2);
            stamp(bytes, 2, "x", 2);
            bytes[3 * 512] ^= 1;
        });
        assert_eq!(
            wrong,
            [
                "block 1 of w, its own 1, holds 2",
                "block 2 of w holds another tenant's block",
                "block 3 of w changed without its stamp"
            ]
        );
        let wrong = differences_after(|bytes| {
            stamp(bytes, 5, "w", 5);
            bytes[5 * 512 + 300] ^= 1;
            stamp(bytes, 20, "w", 20);
        });
        assert_eq!(wrong, ["block 5 of w is damaged", "block 20, which is nobody's, was written"]);
    }

    #[test]
    fn a_tenant_whose_writes_never_came_is_named() {
        assert_eq!(differences_after(|_| {}), ["the image holds no block that w wrote"]);
    }

    #[test]
    fn sentences_do_not_go_on_for_ever() {
        let wrong = differences_after(|bytes| (0..16).for_each(|lba| stamp(bytes, lba, "x", 0)));
        assert_eq!(wrong.len(), SHOWN + 1);
        assert_eq!(wrong[SHOWN], "13 more blocks of the image are wrong");
    }
}
