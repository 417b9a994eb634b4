//! The log pages that list log pages and features (base specification 2.0, sections 5.16.1.1, 5.16.1.18 and 5.16.1.19).
//!
//! Both are made from what Get Log Page and Set Features ask, so they cannot differ from the answers. There is no management
//! interface, so the page about its commands is empty.

use nvme_spec::feature::Feature;
use nvme_spec::log::{FeatureEffects, PageSupport, Scope, SupportedFeatures, SupportedPages};
use zerocopy::FromZeros;

use super::commands::OF_CONTROLLER;
use super::feature_commands;
use super::features::capabilities;
use crate::config::Config;

/// Bytes of the log page about commands of the management interface.
pub(super) const MANAGEMENT_BYTES: usize = 4096;

/// Lists log pages.
pub(super) fn pages(is_supported: impl Fn(u8) -> bool) -> SupportedPages {
    let mut log = SupportedPages::new_zeroed();
    for (lid, entry) in (0..=u8::MAX).zip(&mut log.pages) {
        entry.set(PageSupport::new().with_supported(is_supported(lid)).into_bits());
    }
    log
}

/// Lists features and their effects.
pub(super) fn features(config: &Config) -> SupportedFeatures {
    let mut log = SupportedFeatures::new_zeroed();
    for (fid, entry) in (0..=u8::MAX).zip(&mut log.features) {
        let feature = Feature::from_raw(fid).filter(|&feature| feature_commands::is_there(config, feature));
        entry.set(feature.map_or(0, |feature| effects(feature).into_bits()));
    }
    log
}

fn effects(feature: Feature) -> FeatureEffects {
    let of_namespace = capabilities(feature).of_namespace();
    let scope = if of_namespace { Scope::new().with_namespace(true) } else { OF_CONTROLLER };
    FeatureEffects::new().with_supported(true).with_scope(scope.into_bits())
}
