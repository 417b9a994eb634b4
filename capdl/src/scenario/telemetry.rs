//! Statistics that the components of a scenario show the build machine, and traces of requests.

use super::Tenant;
use blk_api::operation::Kind;
use blk_api::trace::Kinds;
use serde::Deserialize;

/// Statistics in memory that the build machine reads while the system runs, and traces of requests.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Pages of each ring of events, 256 events a page; 0 for no traces. Each session has a ring at its server, and each client one
    pub trace_pages: u16,
    /// The tenants that are traced; all without it
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    pub trace_tenants: Option<Vec<String>>,
    /// The kinds of requests that are traced; all without it
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    pub trace_kinds: Option<Vec<TraceKind>>,
}

/// A kind of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum TraceKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Others: flushes, zeroes, discards.
    Other,
}

impl Telemetry {
    /// Most pages of a ring: 16 MiB.
    pub const MOST_TRACE_PAGES: u16 = 4096;

    /// The kinds of a tenant's requests that are traced from the start.
    #[must_use]
    pub fn traced(&self, tenant: &Tenant) -> Kinds {
        let is_named = self.trace_tenants.as_ref().is_none_or(|names| names.contains(&tenant.name));
        if self.trace_pages == 0 || !is_named {
            return Kinds::NONE;
        }
        let of = |all, kind: &TraceKind| {
            let kind = match kind {
                TraceKind::Read => Kind::Read,
                TraceKind::Write => Kind::Write,
                TraceKind::Other => Kind::Other,
            };
            Kinds(all | Kinds::of(kind).0)
        };
        match &self.trace_kinds {
            Some(kinds) => kinds.iter().fold(Kinds::NONE, |Kinds(all), kind| of(all, kind)),
            None => Kinds::ALL,
        }
    }

    /// Pages of the telemetry of a server with this number of sessions.
    #[must_use]
    pub fn server_pages(&self, sessions: usize) -> usize {
        blk_api::telemetry::trace_page(sessions, sessions, self.trace_pages.into())
    }

    /// Pages of the telemetry of a client with a session.
    #[must_use]
    pub fn client_pages(&self) -> usize {
        self.trace_pages.into()
    }

    /// Pages of the telemetry of a client with a virtual function.
    #[must_use]
    pub fn function_pages(&self) -> usize {
        blk_api::telemetry::FUNCTION_TRACE_PAGE.saturating_add(self.trace_pages.into())
    }
}
