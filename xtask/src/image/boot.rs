//! File that QEMU boots on AArch64: the root task's image with the kernel and the loader around it.

use crate::project::Project;
use anyhow::{Context, Result};
use kernel::Kernel;
use kernel::boot;
use std::fs;

/// Makes the file that boots `image` on `kernel`.
pub fn around(project: &Project, kernel: &Kernel, image: &[u8]) -> Result<Vec<u8>> {
    let read = |path: &std::path::Path| fs::read(path).with_context(|| format!("cannot read {}", project.shown(path)));
    boot::image(&read(&kernel.elf64)?, &read(&boot::build_loader(project.root())?)?, image)
}
