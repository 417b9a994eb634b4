//! An operator's acts on a running system: in words, and by the control component's mailbox.

use anyhow::{Context, Result, anyhow, bail, ensure};
use blk_api::config::{Class, RateLimit};
use blk_api::extent::{Blocks, Extent};
use blk_api::orders::{Limit, ShareChange};
use blk_api::policy;
use capdl::scenario::nearest;
use control_api::{Act, Answer, Refusal, Request};
use platform::Message;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;
use xtask::telemetry::announcement::Control;
use xtask::telemetry::mailbox::Mailbox;

/// The control component of a running system.
pub(crate) struct Operator {
    control: Control,
    mailbox: Mailbox,
}

impl Operator {
    /// The operator of a system with this control component.
    pub(crate) const fn new(control: Control, mailbox: Mailbox) -> Self {
        Self { control, mailbox }
    }

    /// The number of the component with this name.
    ///
    /// # Errors
    /// There is none: the sentence names the nearest.
    pub(crate) fn component(&self, name: &str) -> Result<u16> {
        let known = &self.control.components;
        if let Some((number, _)) = known.iter().find(|(_, known)| known == name) {
            return Ok(*number);
        }
        match nearest(name, known.iter().map(|(_, name)| name.as_str())) {
            Some(near) => bail!("the system has no component '{name}': do you mean '{near}'?"),
            None => {
                let names: Vec<&str> = known.iter().map(|(_, name)| name.as_str()).collect();
                bail!("the system has no component '{name}': it has {}", names.join(", "))
            }
        }
    }

    /// Has the act carried out. Returns the time, by the system's clock, from the request's arrival until it was in force.
    ///
    /// # Errors
    /// The scenario lacks the act, the component that enforces it refuses, or nobody answers.
    pub(crate) fn act(&self, act: Act, request: &Request) -> Result<Duration> {
        ensure!(
            self.control.acts.contains(&act),
            "the scenario does not give its control component the act `{0}`: add \"{0}\" to `acts` of [control]",
            act.name()
        );
        match self.mailbox.ask(request)? {
            Answer::Done { took_ns } => Ok(Duration::from_nanos(took_ns)),
            Answer::Refused(refusal) => Err(anyhow!("refused: {}", reason(refusal))),
            Answer::Administration { .. } => bail!("the control component answers something else"),
        }
    }
}

impl Operator {
    /// Takes all blocks of a tenant, or gives them back as the scenario does.
    ///
    /// # Errors
    /// As [`Operator::act`].
    pub(crate) fn set_all_rights(&self, tenant: &str, are_given: bool) -> Result<()> {
        let number = self.component(tenant)?;
        for extent in self.control.extents.get(tenant).into_iter().flatten() {
            let Extent { first, blocks, .. } = *extent;
            let request = if are_given {
                Request::Grant { tenant: number, extent: *extent }
            } else {
                Request::Revoke { tenant: number, blocks: Blocks { first, blocks } }
            };
            self.act(Act::Rights, &request)?;
        }
        Ok(())
    }
}

/// The reason of a refusal, in words.
pub(super) fn reason(refusal: Refusal) -> String {
    match refusal {
        Refusal::Malformed => "the control component is of another version than this command".into(),
        Refusal::NotAllowed => "the scenario does not allow that".into(),
        Refusal::NoTenant(_) => "that is no tenant".into(),
        Refusal::NoController(number) => format!("the system has no controller number {number}"),
        Refusal::Late => "it is not in force after some seconds, and follows when the tenant's server answers".into(),
        Refusal::Policy { label, values } => policy::Refusal::of(&Message::from_words(label, &values)).to_string(),
        Refusal::Supervisor(refusal) => refusal.to_string(),
    }
}

/// The change of a share from words such as `class=high`, `iops=500/10` and `bandwidth=none`.
///
/// # Errors
/// A word is none: the sentence says what is.
pub(crate) fn share_change(words: &[String]) -> Result<ShareChange> {
    const KEYS: [&str; 6] = ["class", "weight", "iops", "bandwidth", "queue-pairs", "depth"];
    let mut change = ShareChange::default();
    for word in words {
        let (key, value) = word.split_once('=').with_context(|| {
            format!("'{word}' is not a key and a value: write for example class=high or iops=500/10")
        })?;
        match key {
            "class" => set(&mut change.class, key, class(value)?)?,
            "weight" => set(&mut change.weight, key, number(key, value, 1..=u16::MAX)?)?,
            "iops" => set(&mut change.iops, key, limit(key, value)?)?,
            "bandwidth" => set(&mut change.bandwidth, key, limit(key, value)?)?,
            "queue-pairs" => set(&mut change.queue_pairs, key, number(key, value, 1..=u16::MAX)?)?,
            "depth" => set(&mut change.depth, key, number(key, value, 1..=u16::MAX)?)?,
            _ => match nearest(key, KEYS) {
                Some(near) => bail!("a share has no '{key}': do you mean {near}?"),
                None => bail!("a share has no '{key}': it has {}", KEYS.join(", ")),
            },
        }
    }
    Ok(change)
}

fn set<T>(place: &mut Option<T>, key: &str, value: T) -> Result<()> {
    ensure!(place.replace(value).is_none(), "'{key}' is there twice: remove one of them");
    Ok(())
}

fn class(value: &str) -> Result<Class> {
    let all = [Class::Urgent, Class::High, Class::Medium, Class::Low];
    all.into_iter()
        .find(|class| class.name() == value)
        .with_context(|| format!("there is no class '{value}': write {}", all.map(Class::name).join(", ")))
}

/// A limit: `PER_SECOND/AT_ONCE`, or `none`.
fn limit(key: &str, value: &str) -> Result<Limit> {
    if value == "none" {
        return Ok(Limit::None);
    }
    let (per_second, burst) = value.split_once('/').with_context(|| {
        format!("'{value}' is no limit: write {key}=A/B, for A a second and B at once, or {key}=none")
    })?;
    Ok(Limit::Of(RateLimit {
        per_second: number(key, per_second, 1..=u64::MAX)?,
        burst: number(key, burst, 1..=u64::MAX)?,
    }))
}

/// Blocks: `FIRST+COUNT`, by their numbers on the namespace.
///
/// # Errors
/// The text is another.
pub(crate) fn blocks(text: &str) -> Result<Blocks> {
    let (first, count) =
        text.split_once('+').with_context(|| format!("'{text}' is no range: write FIRST+COUNT, as 131200+128"))?;
    Ok(Blocks { first: number("first block", first, 0..=u64::MAX)?, blocks: number("count", count, 1..=u64::MAX)? })
}

fn number<T: FromStr + PartialOrd + Display>(key: &str, text: &str, bounds: std::ops::RangeInclusive<T>) -> Result<T> {
    let parsed = text.replace('_', "").parse().ok().filter(|number| bounds.contains(number));
    parsed.with_context(|| {
        format!("'{text}' is no value of {key}: write a whole number from {} to {}", bounds.start(), bounds.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Result<ShareChange> {
        share_change(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_share_is_changed_by_words() {
        let change = words(&["class=urgent", "iops=1_000/10", "bandwidth=none", "depth=4"]).unwrap();
        let iops = Some(Limit::Of(RateLimit { per_second: 1000, burst: 10 }));
        let wanted = ShareChange {
            class: Some(Class::Urgent),
            iops,
            bandwidth: Some(Limit::None),
            depth: Some(4),
            ..ShareChange::default()
        };
        assert_eq!(change, wanted);
    }

    #[test]
    fn bad_words_get_one_sentence_with_the_mend() {
        for (word, says) in [
            ("class", "'class' is not a key and a value: write for example class=high or iops=500/10"),
            ("clas=high", "a share has no 'clas': do you mean class?"),
            ("colour=red", "a share has no 'colour': it has class, weight, iops, bandwidth, queue-pairs, depth"),
            ("class=best", "there is no class 'best': write urgent, high, medium, low"),
            ("iops=500", "'500' is no limit: write iops=A/B, for A a second and B at once, or iops=none"),
            ("iops=0/1", "'0' is no value of iops: write a whole number from 1 to 18446744073709551615"),
            ("weight=65536", "'65536' is no value of weight: write a whole number from 1 to 65535"),
        ] {
            assert_eq!(words(&[word]).unwrap_err().to_string(), says);
        }
        assert_eq!(
            words(&["depth=1", "depth=2"]).unwrap_err().to_string(),
            "'depth' is there twice: remove one of them"
        );
    }

    #[test]
    fn blocks_are_a_first_one_and_a_count() {
        assert_eq!(blocks("131200+128").unwrap(), Blocks { first: 131_200, blocks: 128 });
        for bad in ["131200", "1+0", "-1+1", "1+1+1", "+", "99999999999999999999+1"] {
            assert!(blocks(bad).is_err(), "{bad}");
        }
    }
}
