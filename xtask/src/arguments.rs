//! Options that several commands have, numbers that options take, and clap's refusals as one sentence.
//!
//! Left out: arguments that only a command can judge, such as the names of scenarios.

use crate::run::shell_word;
use capdl::Scenario;
use capdl::scenario::{Moment, Setting, SettingError};
use clap::Args;
use clap::error::ErrorKind;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

/// Most runs at a time: each has a thread.
const MOST_JOBS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);
/// Most minutes of a search, some two months.
const MOST_MINUTES: u64 = 100_000;
/// Most minutes of a run that is watched.
const MOST_WATCHED_MINUTES: u32 = 1_000;
/// Milliseconds of a minute.
const MINUTE_MS: u32 = 60_000;

/// Changes of a scenario, an option of the commands that run one.
#[derive(Debug, Args)]
pub struct Settings {
    /// Change the value of a key of the scenario, as in tenant.alice.class=high; repeat the option for several
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Setting>,
}

/// The length of a run that is watched, an option of the commands that can be.
#[derive(Debug, Args)]
pub struct Length {
    /// With --live: minutes for which loads go on that end at a moment
    #[arg(long, value_name = "N", requires = "live", default_value_t = 10, value_parser = watched_minutes)]
    minutes: u32,
}

impl Length {
    /// Values by which the loads of a scenario that end at a moment go on for so much longer.
    ///
    /// # Errors
    /// None, for a scenario that was checked.
    pub fn settings(&self, scenario: &Scenario) -> Result<Vec<Setting>, SettingError> {
        let is_end =
            |moment: &&Moment| scenario.tenants.iter().any(|tenant| tenant.ends.as_ref() == Some(&moment.name));
        let mut settings = Vec::new();
        for Moment { name, after_ms, .. } in scenario.moments.iter().filter(is_end) {
            let later = after_ms.saturating_add(self.minutes.saturating_mul(MINUTE_MS));
            settings.push(Setting::new(&format!("moment.{name}.after_ms"), &later.to_string())?);
        }
        if !settings.is_empty() {
            let timeout = scenario.expect.timeout_seconds.saturating_add(u64::from(self.minutes).saturating_mul(60));
            settings.push(Setting::new("expect.timeout_seconds", &timeout.to_string())?);
        }
        Ok(settings)
    }
}

fn watched_minutes(text: &str) -> Result<u32, String> {
    whole(text, 1..=MOST_WATCHED_MINUTES)
}

/// The address of the page of a running system: of this machine alone.
pub const PAGE_ADDRESS: &str = "127.0.0.1:8017";

/// Parses the value of `--jobs`.
pub fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    whole(text, NonZeroUsize::MIN..=MOST_JOBS)
}

/// Parses the value of `--minutes`.
pub fn minutes(text: &str) -> Result<u64, String> {
    whole(text, 1..=MOST_MINUTES)
}

/// Parses a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0..=u64::MAX)
}

/// Parses the value of `--seeds` and `--runs`: the whole numbers from A up to and without B, written as A..B.
pub fn range(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").ok_or("write two numbers with '..' between: 0..100")?;
    let number = |text: &str| seed(text).map_err(|range| format!("for '{text}' {range}, as in 0..100"));
    let (first, end) = (number(ends.0)?, number(ends.1)?);
    if first >= end {
        return Err(format!("there is none from {first} up to {end}: let the second number be the larger one"));
    }
    Ok(first..end)
}

/// Parses the address at which a page is served.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, as in 127.0.0.1:8017; port 0 is any that is free".into())
}

/// Parses a whole number; the refusal states the range.
pub fn whole<T: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<T>) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
}

/// The refusal of arguments with a control character: sentences quote arguments, and an end of a line would begin another sentence.
pub fn refusal(arguments: impl IntoIterator<Item = OsString>) -> Option<String> {
    let texts = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    let acts = texts.skip(1).find(|text| text.contains(char::is_control))?;
    Some(format!("error: the argument {acts:?} has a control character: leave it out, or rename the file"))
}

/// The command that this program runs, as a user types it.
pub fn typed() -> String {
    env::args_os()
        .skip(1)
        .fold("cargo xtask".to_owned(), |line, word| line + " " + &shell_word(&word.to_string_lossy()))
}

/// The sentence of a refusal; `None` for help and the version, which are no refusals.
pub fn sentence(error: &clap::Error) -> Option<String> {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let words: Vec<_> = paragraphs.next().unwrap_or_default().split_whitespace().collect();
    let sentence = words.join(" ");
    // Our own parsers state the mend.
    if error.kind() == ErrorKind::ValueValidation {
        return Some(sentence);
    }
    let mut tips = paragraphs.filter_map(|paragraph| paragraph.trim().strip_prefix("tip: "));
    let mend = tips.find(|tip| !tip.starts_with("to pass")).unwrap_or("see --help");
    Some(format!("{}: {mend}", sentence.trim_end_matches(':')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn number_out_of_its_range_is_refused_with_the_range() {
        assert_eq!((jobs("1").map(NonZeroUsize::get), jobs("256").map(NonZeroUsize::get)), (Ok(1), Ok(256)));
        for text in ["0", "257", "-1", "nan", "1.5", "", " 1", "99999999999999999999"] {
            assert_eq!(jobs(text), Err("give a whole number from 1 to 256".into()), "{text}");
            assert_eq!(minutes(text).is_ok(), text == "257", "{text}");
        }
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert!(seed("18446744073709551616").is_err_and(|says| says.ends_with("from 0 to 18446744073709551615")));
    }

    #[test]
    fn loads_that_end_at_a_moment_go_on_while_they_are_watched() {
        let text = |ends: &str| {
            format!(
                "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"d\"\n[[controller.namespace]]\nsize = \"1M\"\n\
                 [[tenant]]\nname = \"a\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 64 }}]\n{ends}\n\
                 program.name = \"bench\"\n[[moment]]\nname = \"late\"\nwhen = {{ a = {{ verified = 1 }} }}\nafter_ms = 7\n"
            )
        };
        let length = Length { minutes: 2 };
        let settings = |text: &str| length.settings(&Scenario::parse(text, "t.toml").unwrap()).unwrap();
        let text_of = text("ends = \"late\"");
        let longer = Scenario::parse_with(&text_of, "t.toml", None, &settings(&text_of)).unwrap();
        assert_eq!((longer.moments[0].after_ms, longer.expect.timeout_seconds), (120_007, 180));
        assert_eq!(settings(&text("")), []);
    }

    #[test]
    fn address_is_read_or_refused_with_the_mend() {
        assert_eq!(address("[::1]:0").map(|one| one.port()), Ok(0));
        assert!(address(PAGE_ADDRESS).is_ok_and(|one| one.ip().is_loopback()));
        for text in ["", "8017", "localhost", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(address(text).unwrap_err().starts_with("write an address and a port"), "{text}");
        }
    }

    #[test]
    fn argument_with_a_control_character_is_refused_with_escapes() {
        let refused = |argument: &str| refusal(["xtask", "demo", argument].map(OsString::from));
        assert_eq!(refused("tenant.a.name=\"ä\""), None);
        let sentence =
            r#"error: the argument "a\nready\u{1b}" has a control character: leave it out, or rename the file"#;
        assert_eq!(refused("a\nready\u{1b}").as_deref(), Some(sentence));
    }

    #[test]
    fn range_is_read_or_refused_with_the_mend() {
        assert_eq!(range("3..10"), Ok(3..10));
        for (text, expected) in
            [("5", "'..'"), ("5..5", "larger"), ("a..5", "for 'a' give a whole"), ("5..", "for '' give")]
        {
            let refusal = range(text).unwrap_err();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn refusal_is_one_sentence_with_the_mend() {
        let command = || {
            let seed = Arg::new("seed").long("seed").value_parser(seed).allow_negative_numbers(true);
            let order = Arg::new("order").long("order").value_parser(["drawn", "sel4"]);
            Command::new("sim").version("1").args([seed, order, Arg::new("scenario").required(true)])
        };
        for (arguments, expected) in [
            (
                &["a", "--seed", "-1"][..],
                "error: invalid value '-1' for '--seed <seed>': give a whole number from 0 to 18446744073709551615",
            ),
            (&["a", "--sede", "1"], "error: unexpected argument '--sede' found: a similar argument exists: '--seed'"),
            (&["a", "b"], "error: unexpected argument 'b' found: see --help"),
            (&[], "error: the following required arguments were not provided: <scenario>: see --help"),
            (
                &["a", "--order", "x"],
                "error: invalid value 'x' for '--order <order>' [possible values: drawn, sel4]: see --help",
            ),
        ] {
            let error = command().try_get_matches_from([&["sim"], arguments].concat()).unwrap_err();
            assert_eq!(sentence(&error).as_deref(), Some(expected));
        }
        for not_refused in ["--help", "--version"] {
            let error = command().try_get_matches_from(["sim", not_refused]).unwrap_err();
            assert_eq!(sentence(&error), None);
        }
    }
}
