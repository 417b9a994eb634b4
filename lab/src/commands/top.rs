//! `cargo xtask top`: the tenants of a running system on a terminal, with their rates and latencies, once a second.

use crate::live::Live;
use crate::live::tenant::{COLUMNS, Tenant, row};
use anyhow::{Result, ensure};
use clap::Args;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::cmp::Reverse;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use xtask::out;
use xtask::project::Project;

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(1);
/// The part of the time from which on a tenant that is held back is marked.
const MUCH: f64 = 0.5;
/// Widths of the columns on a terminal of 80.
const WIDTHS: [u16; 11] = [13, 6, 7, 7, 7, 7, 7, 7, 4, 3, 4];

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The scenario whose newest run is watched; any that goes on without it
    scenario: Option<String>,
}

/// The order of the tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Order {
    /// By server and session.
    #[default]
    Session,
    /// The most requests first.
    Rate,
    /// The longest latency first.
    Latency,
}

impl Order {
    const fn next(self) -> Self {
        match self {
            Self::Session => Self::Rate,
            Self::Rate => Self::Latency,
            Self::Latency => Self::Session,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Session => "by session",
            Self::Rate => "by IOPS",
            Self::Latency => "by p99",
        }
    }

    fn sort(self, tenants: &mut [Tenant]) {
        match self {
            Self::Session => {}
            // Rates are far below what does not fit.
            Self::Rate => tenants.sort_by_key(|one| Reverse(one.both.requests_per_second as u64)),
            Self::Latency => tenants.sort_by_key(|one| Reverse(one.both.p99_ns)),
        }
    }
}

/// Watches the running system until the user has seen enough, or the run is over.
pub(crate) fn run(project: &Project, top: &Top) -> Result<ExitCode> {
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "`top` needs a terminal: cargo xtask ctl tenants prints the tenants once"
    );
    let mut live = Live::attach(project, top.scenario.as_deref())?;
    let mut terminal = ratatui::try_init()?;
    let watched = watch(&mut terminal, &mut live);
    ratatui::restore();
    if let Some(over) = watched? {
        out::note(format_args!("{over}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the sentence about the run's end, if that came first.
fn watch(terminal: &mut ratatui::DefaultTerminal, live: &mut Live) -> Result<Option<String>> {
    let (mut order, mut tenants) = (Order::default(), live.tenants());
    loop {
        let due = Instant::now() + EVERY;
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            terminal.draw(|frame| draw(frame, live.scenario(), &tenants, order))?;
            if !event::poll(left)? {
                break;
            }
            if let Event::Key(key) = event::read()? {
                let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(None),
                    _ if is_interrupt => return Ok(None),
                    KeyCode::Char('s') => order = order.next(),
                    _ => {}
                }
                order.sort(&mut tenants);
            }
        }
        if let Err(over) = live.refresh() {
            return Ok(Some(over.to_string()));
        }
        tenants = live.tenants();
        order.sort(&mut tenants);
    }
}

fn draw(frame: &mut Frame<'_>, scenario: &str, tenants: &[Tenant], order: Order) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let (open, rate, bytes) = tenants.iter().fold((0u32, 0.0, 0.0), |(open, rate, bytes), one| {
        let (more, faster) = (one.both.requests_per_second, one.both.bytes_per_second);
        (open + u32::from(one.is_open), rate + more, bytes + faster)
    });
    let all = format!("{scenario}: {open} of {} sessions open, {rate:.0} IOPS, {:.1} MB/s", tenants.len(), bytes / 1e6);
    frame.render_widget(Paragraph::new(Line::from(all)).style(Style::new().add_modifier(Modifier::BOLD)), head);
    let header = Row::new(COLUMNS).style(marked(Style::new().add_modifier(Modifier::UNDERLINED), Color::Reset));
    let rows = tenants.iter().map(|tenant| Row::new(row(tenant).map(Cell::from)).style(style(tenant)));
    let table = Table::new(rows, WIDTHS.map(Constraint::Length)).header(header);
    frame.render_widget(table, body);
    let keys = format!("q quit   s sort ({})   held: time its turn was withheld", order.words());
    frame.render_widget(Paragraph::new(Line::from(keys)).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn style(tenant: &Tenant) -> Style {
    if !tenant.is_open {
        Style::new().add_modifier(Modifier::DIM)
    } else if tenant.held_back > MUCH {
        marked(Style::new(), Color::Yellow)
    } else {
        Style::new()
    }
}

/// The style in this colour, unless the user wants none.
fn marked(style: Style, colour: Color) -> Style {
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) { style } else { style.fg(colour) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tenant::tests::tenant;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(columns: u16, lines: u16, tenants: &[Tenant]) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        terminal.draw(|frame| draw(frame, "demo", tenants, Order::Rate)).unwrap();
        let buffer = terminal.backend().buffer();
        let width = usize::from(columns);
        buffer.content().chunks(width).map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn everything_fits_on_a_terminal_of_80_by_24() {
        let tenants: Vec<_> = (0..20).map(|number| tenant(&format!("tenant-{number}"), 123_456, 9_999_000)).collect();
        let lines = shown(80, 24, &tenants);
        assert!(lines[0].starts_with("demo: 20 of 20 sessions open"), "{}", lines[0]);
        assert!(lines[1].trim_end().ends_with("held"), "{}", lines[1]);
        assert!(lines[2].starts_with("tenant-0") && lines[2].trim_end().ends_with("0%"), "{}", lines[2]);
        assert!(lines[21].starts_with("tenant-19"), "{}", lines[21]);
        assert!(lines[23].starts_with("q quit   s sort (by IOPS)"), "{}", lines[23]);
    }

    #[test]
    fn orders_follow_each_other() {
        let mut tenants = vec![tenant("slow", 10, 9_000), tenant("fast", 1_000, 100)];
        Order::Rate.sort(&mut tenants);
        assert_eq!(tenants[0].tenant, "fast");
        Order::Latency.sort(&mut tenants);
        assert_eq!(tenants[0].tenant, "slow");
        assert_eq!(Order::default().next().next().next(), Order::default());
    }

    #[test]
    fn a_small_terminal_is_no_error() {
        assert_eq!(shown(10, 3, &[tenant("alice", 1, 1)]).len(), 3);
    }
}
