//! Namespaces that changed since the driver last read log page 04h (section 5.14.1.4).

use std::collections::BTreeSet;

use nvme_spec::Nsid;
use nvme_spec::identify::NamespaceList;

/// Identifiers of namespaces that were attached, detached, deleted or formatted.
#[derive(Debug, Default)]
pub(crate) struct Changes(BTreeSet<u32>);

impl Changes {
    /// Returns the log page.
    pub(crate) fn page(&self) -> NamespaceList {
        let most = NamespaceList::of(std::iter::empty()).nsids.len();
        if self.0.len() > most {
            return NamespaceList::of(std::iter::once(Nsid(NamespaceList::OVERFLOW)));
        }
        NamespaceList::of(self.0.iter().copied().map(Nsid))
    }

    /// Records a namespace.
    pub(crate) fn insert(&mut self, nsid: u32) {
        self.0.insert(nsid);
    }

    /// Empties the list: the page was read, or the controller was reset.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_each_namespace_once_and_ascending() {
        let mut changes = Changes::default();
        changes.0.extend([7, 2, 7]);
        assert_eq!(changes.page().iter().map(|nsid| nsid.0).collect::<Vec<_>>(), [2, 7]);
        changes.clear();
        assert_eq!(changes.page().iter().count(), 0);
    }

    #[test]
    fn more_changes_than_fit_are_one_entry_of_ones() {
        let mut changes = Changes::default();
        changes.0.extend(1..=1024);
        assert_eq!(changes.page().iter().count(), 1024);
        changes.0.insert(1025);
        let page = changes.page();
        assert_eq!(page.nsids[0].get(), u32::MAX);
        assert!(page.nsids[1..].iter().all(|nsid| nsid.get() == 0));
    }
}
