//! Refusals of shares that the scheduler would refuse at run time.

use crate::scenario::Tenant;
use crate::scenario::refusal::{Checked, refuse, refuse_file};
use blk_api::config::{ClassWeights, RateLimit};

/// Checks a tenant's class, weight and limits.
pub(super) fn check(tenant: &Tenant, line: usize) -> Checked {
    let name = &tenant.name;
    if tenant.weight == 0 {
        return refuse(line, format!("tenant `{name}` has weight 0: give it 1 to {}", u16::MAX));
    }
    if tenant.class < tenant.highest() {
        return refuse(
            line,
            format!(
                "tenant `{name}` has class `{}` above its highest_class `{}`: lower the one or raise the other",
                tenant.class.name(),
                tenant.highest().name()
            ),
        );
    }
    let limits = [("iops", tenant.iops, 1), ("bandwidth", tenant.bandwidth, RateLimit::LEAST_BYTES)];
    for (key, limit, request) in limits {
        if let Some(RateLimit { per_second, burst }) = limit.filter(|limit| !limit.passes(request)) {
            return refuse(
                line,
                format!(
                    "tenant `{name}` has {key} of {per_second} per_second and a burst of {burst}, under which no \
                     request passes: give both at least {request}"
                ),
            );
        }
    }
    Ok(())
}

/// Checks the weights of classes.
pub(super) fn check_class_weights(weights: ClassWeights) -> Checked {
    let ClassWeights { high, medium, low } = weights;
    for (class, weight) in [("high", high), ("medium", medium), ("low", low)] {
        if weight == 0 || weight > ClassWeights::MOST {
            return refuse_file(format!(
                "[server] class_weights has {class} = {weight}: give it 1 to {}",
                ClassWeights::MOST
            ));
        }
    }
    Ok(())
}
