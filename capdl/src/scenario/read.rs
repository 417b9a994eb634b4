//! The way of a scenario from its file: values that settings change, the document, all refusals of it.

use super::file::File;
use super::refusal::Refusal;
use super::sentence::{line_of, line_of_key, sentence, utf8};
use super::{Scenario, ScenarioError, Setting, beyond, repair, validate};
use capdl_spec::Arch;
use std::collections::BTreeMap;
use std::path::Path as FilePath;
use toml::Spanned;
use toml::de::DeTable;

impl Scenario {
    /// Loads the scenario in the file at `path`.
    ///
    /// # Errors
    /// [`ScenarioError`] for a file that cannot be read, is not a scenario, or contradicts itself.
    pub fn load(path: impl AsRef<FilePath>) -> Result<Self, ScenarioError> {
        Self::load_for(path, None)
    }

    /// Loads the scenario in the file at `path`, for a machine of this architecture where one is named.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_for(path: impl AsRef<FilePath>, arch: Option<Arch>) -> Result<Self, ScenarioError> {
        Self::load_with(path, arch, &[])
    }

    /// Loads the scenario in the file at `path`, with values of these keys changed, for a machine of this architecture where one is
    /// named.
    ///
    /// # Errors
    /// As [`Scenario::load`]. A refusal that a setting causes names it in the place of a line.
    pub fn load_with(
        path: impl AsRef<FilePath>,
        arch: Option<Arch>,
        settings: &[Setting],
    ) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let refused = |line, message| ScenarioError::new(&file, vec![Refusal { line, message }], |_| None);
        let bytes = std::fs::read(path)
            .map_err(|error| refused(None, format!("cannot be read ({error}): name a scenario file that exists")))?;
        let text = utf8(&bytes).map_err(|(line, message)| refused(Some(line), message))?;
        let mut scenario = Self::parse_with(text, &file, arch, settings)?;
        let folder = path.parent().unwrap_or(FilePath::new(""));
        scenario.tenants.iter_mut().for_each(|tenant| tenant.workload.resolve(folder));
        Ok(scenario)
    }

    /// Parses the scenario in `text`; errors call the file `file`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(text, file, None, &[])
    }

    /// Parses the scenario in `text` with values changed, as [`Scenario::load_with`] does.
    ///
    /// # Errors
    /// As [`Scenario::load_with`].
    pub fn parse_with(text: &str, file: &str, arch: Option<Arch>, settings: &[Setting]) -> Result<Self, ScenarioError> {
        Self::read(text, arch, settings).map_err(|refusals| {
            // A contradiction is that of the first setting after those with which the scenario is accepted.
            let is_accepted =
                |count: &usize| Self::read(text, arch, settings.get(..*count).unwrap_or_default()).is_ok();
            let blamed = (0..settings.len()).rev().find(is_accepted).and_then(|count| settings.get(count));
            // The lines of settings follow those of the text.
            let own = |line: usize| settings.get(line.checked_sub(text.lines().count() + 1)?);
            ScenarioError::new(file, refusals, |line| line.and_then(own).or(blamed))
        })
    }

    fn read(text: &str, arch: Option<Arch>, settings: &[Setting]) -> Result<Self, Vec<Refusal>> {
        let (mut whole, mut padded) = (text.to_owned(), Vec::new());
        for setting in settings {
            if !whole.is_empty() && !whole.ends_with('\n') {
                whole.push('\n');
            }
            padded.push((whole.len(), " ".repeat(whole.len()) + &setting.line()));
            whole.push_str(&setting.line());
        }
        let mut document = DeTable::parse(text).map_err(|error| {
            let (line, message) = sentence(text, error.span(), error.message());
            vec![Refusal { line, message }]
        })?;
        let mut places: BTreeMap<_, &Setting> = BTreeMap::new();
        for (setting, (start, line)) in settings.iter().zip(&padded) {
            let refused = |message| vec![Refusal { line: Some(line_of(&whole, *start)), message }];
            let place = setting.apply(document.get_mut(), line).map_err(|error| refused(error.to_string()))?;
            let other = places.insert(place, setting).filter(|other| other.path != setting.path);
            other.map_or(Ok(()), |other| Err(refused(format!("`{other}` sets the same key: name it once"))))?;
        }
        Self::check(&whole, arch, &document)
    }

    fn check(text: &str, arch: Option<Arch>, document: &Spanned<DeTable<'_>>) -> Result<Self, Vec<Refusal>> {
        let validated = |file: File, document: &Spanned<DeTable<'_>>| {
            let checked = file.scenario(text).and_then(|(mut scenario, lines)| {
                scenario.machine.arch = arch.unwrap_or(scenario.machine.arch);
                validate::validate(&scenario, &lines)?;
                Ok(scenario)
            });
            checked.map_err(|mut refusals| {
                for refusal in &mut refusals {
                    refusal.line = refusal.line.or_else(|| line_of_key(text, document, &refusal.message));
                }
                refusals
            })
        };
        let unread = match repair::read(text, document) {
            Ok(file) => return validated(file, document),
            Err(unread) => unread,
        };
        let refused = |document: &Spanned<DeTable<'_>>| validated(repair::read(text, document).ok()?, document).err();
        Err(beyond::refine(unread, |document| refused(document).unwrap_or_default()))
    }
}
