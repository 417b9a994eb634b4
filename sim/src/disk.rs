//! The content of namespaces before a run.

use std::sync::Arc;

/// The content of a namespace before the run.
#[derive(Clone)]
pub struct Disk {
    /// Content of the namespace.
    pub base: Arc<dyn sim_nvme::Base>,
}

impl Disk {
    /// A disk that holds zeroes.
    #[must_use]
    pub fn zeroes() -> Self {
        Self { base: Arc::new(sim_nvme::Zeroes) }
    }

    /// A disk whose words are all different, see [`sim_page::pattern`].
    #[must_use]
    pub fn pattern() -> Self {
        Self { base: Arc::new(sim_page::pattern::read) }
    }
}
