//! `cargo xtask top`: the tenants of a running system on a terminal, with their rates and latencies, once a second. In a system with
//! a control component, keys act on the tenant that is chosen.

use crate::live::Live;
use crate::live::keys::{self, KEYS, Key};
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

/// The parts of the screen beside the figures.
#[derive(Default)]
struct Screen {
    order: Order,
    /// The name of the chosen tenant.
    chosen: String,
    /// Whether keys act on it.
    acts: bool,
    /// The outcome of the last act.
    outcome: String,
}

impl Screen {
    /// Chooses the tenant so many places further down.
    fn choose(&mut self, tenants: &[Tenant], down: isize) {
        let place = tenants.iter().position(|one| one.tenant == self.chosen).unwrap_or_default();
        let place = place.saturating_add_signed(down).min(tenants.len().saturating_sub(1));
        self.chosen = tenants.get(place).map(|one| one.tenant.clone()).unwrap_or_default();
    }
}

/// Returns the sentence about the run's end, if that came first.
fn watch(terminal: &mut ratatui::DefaultTerminal, live: &mut Live) -> Result<Option<String>> {
    let mut tenants = live.tenants();
    let mut screen = Screen { acts: live.has_operator(), ..Screen::default() };
    screen.choose(&tenants, 0);
    loop {
        let due = Instant::now() + EVERY;
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            terminal.draw(|frame| draw(frame, live.scenario(), &tenants, &screen))?;
            if !event::poll(left)? {
                break;
            }
            if let Event::Key(key) = event::read()? {
                let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(None),
                    _ if is_interrupt => return Ok(None),
                    KeyCode::Char('s') => screen.order = screen.order.next(),
                    KeyCode::Up => screen.choose(&tenants, -1),
                    KeyCode::Down => screen.choose(&tenants, 1),
                    KeyCode::Char(key) if screen.acts => {
                        let chosen = tenants.iter().find(|one| one.tenant == screen.chosen);
                        if let (Some(key), Some(chosen)) = (Key::of(key), chosen) {
                            screen.outcome = keys::press(live, key, chosen);
                        }
                    }
                    _ => {}
                }
                screen.order.sort(&mut tenants);
            }
        }
        if let Err(over) = live.refresh() {
            return Ok(Some(over.to_string()));
        }
        tenants = live.tenants();
        screen.order.sort(&mut tenants);
    }
}

fn draw(frame: &mut Frame<'_>, scenario: &str, tenants: &[Tenant], screen: &Screen) {
    // A line for the keys that act, and one for the outcome.
    let lines = if screen.acts { 3 } else { 1 };
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(lines)]).areas(frame.area());
    let (open, rate, bytes) = tenants.iter().fold((0u32, 0.0, 0.0), |(open, rate, bytes), one| {
        let (more, faster) = (one.both.requests_per_second, one.both.bytes_per_second);
        (open + u32::from(one.is_open), rate + more, bytes + faster)
    });
    let all = format!("{scenario}: {open} of {} sessions open, {rate:.0} IOPS, {:.1} MB/s", tenants.len(), bytes / 1e6);
    frame.render_widget(Paragraph::new(Line::from(all)).style(Style::new().add_modifier(Modifier::BOLD)), head);
    let header = Row::new(COLUMNS).style(marked(Style::new().add_modifier(Modifier::UNDERLINED), Color::Reset));
    let rows = tenants.iter().map(|tenant| Row::new(row(tenant).map(Cell::from)).style(style(tenant, screen)));
    let table = Table::new(rows, WIDTHS.map(Constraint::Length)).header(header);
    frame.render_widget(table, body);
    let keys = format!("q quit   s sort ({})   held: time its turn was withheld", screen.order.words());
    let mut foot_lines = vec![Line::from(keys).style(Style::new().add_modifier(Modifier::DIM))];
    if screen.acts {
        foot_lines.push(Line::from(KEYS).style(Style::new().add_modifier(Modifier::DIM)));
        foot_lines.push(Line::from(screen.outcome.as_str()));
    }
    frame.render_widget(Paragraph::new(foot_lines), foot);
}

fn style(tenant: &Tenant, screen: &Screen) -> Style {
    let style = if screen.acts && tenant.tenant == screen.chosen {
        Style::new().add_modifier(Modifier::REVERSED)
    } else {
        Style::new()
    };
    if !tenant.is_open {
        style.add_modifier(Modifier::DIM)
    } else if tenant.held_back > MUCH {
        marked(style, Color::Yellow)
    } else {
        style
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
        on_screen(columns, lines, tenants, &Screen { order: Order::Rate, ..Screen::default() })
    }

    fn on_screen(columns: u16, lines: u16, tenants: &[Tenant], screen: &Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        terminal.draw(|frame| draw(frame, "demo", tenants, screen)).unwrap();
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
    fn keys_that_act_and_the_last_outcome_are_shown_where_an_operator_can_act() {
        let tenants: Vec<_> = (0..20).map(|number| tenant(&format!("tenant-{number}"), 1, 1)).collect();
        let mut screen = Screen { acts: true, outcome: "tenant-1: suspended".into(), ..Screen::default() };
        let lines = on_screen(80, 24, &tenants, &screen);
        assert!(lines[22].starts_with("c class") && lines[23].starts_with("tenant-1: suspended"), "{lines:?}");
        for (down, chosen) in [(0, "tenant-0"), (-1, "tenant-0"), (3, "tenant-3"), (99, "tenant-19")] {
            screen.choose(&tenants, down);
            assert_eq!(screen.chosen, chosen);
        }
        screen.choose(&[], 1);
        assert_eq!(screen.chosen, "");
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
