//! Refusals of traces.

use crate::scenario::nearest::nearest;
use crate::scenario::refusal::{Checked, refuse_file};
use crate::scenario::{Scenario, Telemetry};

/// Checks that there is room for traces, and that those who are traced are there.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let Some(Telemetry { trace_pages, trace_tenants, trace_kinds }) = &scenario.telemetry else { return Ok(()) };
    if *trace_pages > Telemetry::MOST_TRACE_PAGES {
        let most = Telemetry::MOST_TRACE_PAGES;
        return refuse_file(format!("[telemetry] trace_pages is {trace_pages}: write {most} at most"));
    }
    let chosen = [("trace_tenants", trace_tenants.is_some()), ("trace_kinds", trace_kinds.is_some())];
    if let Some((key, _)) = chosen.into_iter().find(|(_, is_there)| *is_there && *trace_pages == 0) {
        return refuse_file(format!(
            "[telemetry] {key} has no effect without trace_pages: write trace_pages = 16, or leave it out"
        ));
    }
    let names = || scenario.tenants.iter().map(|tenant| tenant.name.as_str());
    match trace_tenants.iter().flatten().find(|name| !names().any(|known| known == name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let meant = nearest(name, names()).map_or_else(|| "a tenant".into(), |meant| format!("`{meant}`"));
            let name = name.escape_debug();
            refuse_file(format!("[telemetry] trace_tenants names `{name}`, which is not there: name {meant}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use blk_api::operation::Kind;
    use blk_api::trace::Kinds;

    fn with(keys: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = \"a\"\ndescription = \"b\"\n[telemetry]\n{keys}\n[[controller]]\nname = \"disk\"\n\
             [[controller.namespace]]\nsize = \"1M\"\n[[tenant]]\nname = \"alice\"\nqueue_pairs = 1\n\
             extents = [{{ first = 0, blocks = 16 }}]\nprogram.name = \"bench\"\n"
        );
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn tenants_and_kinds_are_chosen() {
        let traced = |keys: &str| {
            let scenario = with(keys).unwrap();
            scenario.traced(&scenario.tenants[0])
        };
        assert_eq!(traced(""), Kinds::NONE);
        assert_eq!(traced("trace_pages = 4"), Kinds::ALL);
        assert_eq!(traced("trace_pages = 4\ntrace_tenants = []"), Kinds::NONE);
        let keys = "trace_pages = 4\ntrace_tenants = [\"alice\"]\ntrace_kinds = [\"write\"]";
        assert_eq!(traced(keys), Kinds::of(Kind::Write));
    }

    #[test]
    fn traces_without_room_or_tenant_are_refused() {
        let refused = |keys: &str, part: &str| {
            let sentence = with(keys).unwrap_err();
            assert!(sentence.contains(part), "{sentence}");
        };
        refused("trace_pages = 5000", "trace_pages is 5000: write 4096 at most");
        refused("trace_kinds = [\"read\"]", "trace_kinds has no effect without trace_pages");
        refused("trace_pages = 4\ntrace_tenants = [\"alcie\"]", "names `alcie`, which is not there: name `alice`");
        refused("trace_pages = 4\ntrace_kinds = [\"reads\"]", "reads");
        refused("trace_pages = 4096\n[machine]\nmemory = \"64M\"", "memory");
    }
}
