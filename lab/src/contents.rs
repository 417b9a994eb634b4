//! Contents of namespaces before a run, for the simulator's controllers.

use anyhow::{Context, Result};
use capdl::scenario::{Backend, Content, Namespace};
use sim::Disk;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The content that a scenario gives a namespace.
pub(crate) fn of(namespace: &Namespace) -> Disk {
    let content = if namespace.backend == Backend::File { namespace.content } else { Content::Zeroes };
    match content {
        Content::Zeroes => Disk::zeroes(),
        Content::Pattern => Disk::pattern(),
    }
}

/// The content of the file at `path`.
pub(crate) fn of_file(path: &Path) -> Result<Disk> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let base = move |offset: u64, bytes: &mut [u8]| {
        // Bytes beyond the file's end are zeroes: a namespace's size is whole blocks, and a file may shrink meanwhile.
        bytes.fill(0);
        let _ = file.read_at(bytes, offset);
    };
    Ok(Disk { base: Arc::new(base) })
}
