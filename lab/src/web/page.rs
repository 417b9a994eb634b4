//! The page's HTML, style and script. The script puts names and lines into the page as text, never as HTML.

use super::feed::System;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use xtask::plain::plain;
use xtask::reports::page;

/// The page's script.
pub(super) const SCRIPT: &str = include_str!("live.js");

/// The page's style.
pub(super) fn style() -> String {
    format!("{}{}", page::STYLE, include_str!("live.css"))
}

/// The page; before the system runs, one that asks again.
pub(super) fn html(system: Option<&System>) -> String {
    let page = match system {
        Some(system) => html! {
            (DOCTYPE)
            html lang="en" {
                (head(&system.scenario))
                body { (body(system)) }
            }
        },
        None => html! {
            (DOCTYPE)
            html lang="en" {
                (head("capnvme"))
                body { p { "The system has not started. This page looks again every second." } }
            }
        },
    };
    plain(&page.into_string()).into_owned()
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width";
            title { (title) }
            link rel="stylesheet" href="live.css";
            script src="live.js" defer {}
        }
    }
}

fn body(system: &System) -> Markup {
    html! {
        h1 { (system.scenario) " " span #state .faint { "connecting" } }
        noscript { p.bad { "This page needs scripts. " code { "cargo xtask top" } " shows the tenants on a terminal." } }
        p #answer role="status" {}
        h2 { "Tenants" }
        div.wide {
            table {
                thead { tr {
                    th { "tenant" } th { "class" }
                    @for name in ["IOPS", "MB/s", "p50 µs", "p99 µs", "p99.9 µs", "peak µs", "on the ring", "at the device", "held back", "refused", "forbidden"] {
                        th.number { (name) }
                    }
                    th {}
                } }
                tbody #tenants {}
            }
        }
        div #servers {}
        h2 { "Latencies" }
        p.faint {
            "Each tenant's median " span.p50 { "—" } ", 99 % " span.p99 { "—" } " and peak " span.peak { "—" }
            " of the last two minutes, on one scale; the surface is its rate. "
            span.restart { "┆" } " is a restart of its server."
        }
        div #curves {}
        div.columns {
            div {
                h2 { "What happened" }
                ol #log {}
            }
            div {
                h2 { "Capability graph" }
                p.faint { "A line between a tenant and its server is as wide as its rate." }
                figure #graph { (PreEscaped(system.graph.as_str())) }
            }
        }
        p.faint { a href="metrics" { "metrics" } " in OpenMetrics" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::telemetry::sample::Sample;

    #[test]
    fn names_are_escaped_and_nothing_comes_from_elsewhere() {
        let scenario = "<script>x</script>\"'\u{1b}".to_owned();
        let page = html(Some(&System { scenario, graph: "<svg/>".into(), acts: None, sample: Sample::default() }));
        assert!(
            page.contains("&lt;script&gt;x") && !page.contains('\u{1b}') && page.matches("<script").count() == 1,
            "{page}"
        );
        for text in [page.as_str(), SCRIPT, &style()] {
            assert!(!text.replace("http://www.w3.org/2000/svg", "").contains("http"), "{text}");
        }
        for html in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!SCRIPT.contains(html), "{html}");
        }
    }

    #[test]
    fn script_asks_again_where_there_are_no_tenants_yet() {
        let of = |system: Option<&System>| html(system).contains("id=\"tenants\"");
        let system = System { scenario: "a".into(), graph: String::new(), acts: None, sample: Sample::default() };
        assert_eq!((of(None), of(Some(&system))), (false, true));
        assert!(SCRIPT.contains("if (byId('tenants')) watch();"));
    }
}
