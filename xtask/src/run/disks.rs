//! Images of a run's namespaces, and the user's disk in the place of one of them.

use crate::machine::disk::{self, UserDisk};
use crate::machine::qemu;
use anyhow::{Context, Result};
use blk_api::extent::Extent;
use capdl::Scenario;
use capdl::scenario::{Backend, Controller, Namespace};
use std::fs;
use std::path::{Path, PathBuf};

/// Replaces the scenario's first file by the user's disk. A tenant whose extent was the whole namespace gets the whole disk; the
/// disk must hold the extents of the others.
pub fn place(scenario: &mut Scenario, disk: &UserDisk) -> Result<()> {
    let name = scenario.name.clone();
    let place = qemu::user_place(scenario).with_context(|| {
        format!("the scenario '{name}' has no disk of a file, so --disk has no place in it: leave out --disk")
    })?;
    let serial = scenario.controllers.get(place.0).map(|controller| controller.name.clone()).unwrap_or_default();
    let namespace = scenario
        .controllers
        .get_mut(place.0)
        .and_then(|controller| controller.namespaces.get_mut(place.1))
        .context("the namespace is gone")?;
    let block_bytes = u64::from(namespace.block_bytes);
    let whole = [Extent::new(0, namespace.size / block_bytes)];
    let blocks = disk.bytes / block_bytes;
    let tenants = scenario.tenants.iter_mut();
    let mut needed = 1;
    for tenant in tenants.filter(|tenant| tenant.controller == serial && tenant.namespace as usize == place.1 + 1) {
        if tenant.extents == whole {
            tenant.extents = vec![Extent::new(0, blocks)];
        } else {
            needed = tenant.extents.iter().filter_map(|extent| extent.end()).fold(needed, u64::max);
        }
    }
    disk.ensure_holds(needed.saturating_mul(block_bytes), &name)?;
    namespace.size = blocks.saturating_mul(block_bytes);
    Ok(())
}

/// File of a tenant's namespace, if it has one.
pub(crate) fn file_of(scenario: &Scenario, folder: &Path, disk: Option<&UserDisk>, tenant: &str) -> Option<PathBuf> {
    let tenant = scenario.tenants.iter().find(|one| one.name == tenant)?;
    let (index, controller) = scenario.controller(&tenant.controller)?;
    if scenario.namespace(tenant)?.backend != Backend::File {
        return None;
    }
    let number = tenant.namespace as usize;
    match disk.filter(|_| qemu::user_place(scenario) == Some((index, number.wrapping_sub(1)))) {
        Some(disk) => Some(disk.path.clone()),
        None => Some(qemu::image_file(folder, &controller.name, number)),
    }
}

/// An image of a run: the file of a namespace.
pub(crate) struct Image<'a> {
    /// The controller.
    pub controller: &'a Controller,
    /// The namespace.
    pub namespace: &'a Namespace,
    /// The namespace's id.
    pub nsid: u32,
    /// The file.
    pub path: PathBuf,
}

/// The images of a run in `folder`, without the user's disk.
pub(crate) fn images<'a>(scenario: &'a Scenario, folder: &Path, disk: Option<&UserDisk>) -> Vec<Image<'a>> {
    let user = disk.and_then(|_| qemu::user_place(scenario));
    let mut images = Vec::new();
    for (index, controller) in scenario.controllers.iter().enumerate() {
        for ((number, namespace), nsid) in controller.namespaces.iter().enumerate().zip(1..) {
            if namespace.backend == Backend::File && user != Some((index, number)) {
                let path = qemu::image_file(folder, &controller.name, number + 1);
                images.push(Image { controller, namespace, nsid, path });
            }
        }
    }
    images
}

/// Creates the images of a run with their initial content.
pub fn make(scenario: &Scenario, folder: &Path, disk: Option<&UserDisk>) -> Result<()> {
    let images = images(scenario, folder, disk);
    images.iter().try_for_each(|image| disk::create(&image.path, image.namespace.size, image.namespace.content))
}

/// Removes the images of a run.
pub fn remove(scenario: &Scenario, folder: &Path) {
    for image in images(scenario, folder, None) {
        // The user's disk replaces an image, which then does not exist.
        let _ = fs::remove_file(image.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::disk::Writing;

    #[test]
    fn users_disk_replaces_the_first_file() {
        let text = "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n\
                    [[controller.namespace]]\nsize = \"64M\"\nbackend = \"null\"\n[[controller.namespace]]\nsize = \"64M\"\n\
                    [[tenant]]\nname = \"w\"\nnamespace = 2\nqueue_pairs = 1\nextents = [{ first = 100, blocks = 1024 }]\n\
                    program.name = \"bench\"\n[tenant.program.config]\n";
        let mut scenario = Scenario::parse(text, "t.toml").unwrap();
        let mut disk = UserDisk { path: "disk".into(), writing: Writing::Forgotten, bytes: 1000 * 512 };
        let small = place(&mut scenario, &disk).unwrap_err().to_string();
        assert!(small.contains("needs 575488"), "{small}");
        disk.bytes = 4096 * 512 + 100;
        place(&mut scenario, &disk).unwrap();
        assert_eq!(scenario.controllers[0].namespaces[1].size, 4096 * 512);
        assert_eq!(scenario.controllers[0].namespaces[0].size, 64 << 20);
        assert!(images(&scenario, Path::new("run"), Some(&disk)).is_empty());
        assert_eq!(file_of(&scenario, Path::new("run"), Some(&disk), "w"), Some("disk".into()));
        let own = images(&scenario, Path::new("run"), None);
        assert_eq!((own.len(), own[0].nsid, own[0].path.clone()), (1, 2, "run/a-2.img".into()));
        assert_eq!(file_of(&scenario, Path::new("run"), None, "w"), Some("run/a-2.img".into()));
    }
}
