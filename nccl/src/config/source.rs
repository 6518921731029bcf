//! The sources of settings.

use std::path::Path;

use braid::environment;

use super::{ConfigError, names, nccl};

/// A setting as the user wrote it.
#[derive(Debug)]
pub(super) struct Given {
    /// Its name in [`names`].
    pub(super) name: String,
    /// The name under which the user knows it.
    pub(super) setting: String,
    pub(super) value: String,
}

const PREFIX: &str = "BRAID_";
/// Names the file. It is not a setting itself.
const FILE: &str = "BRAID_CONFIG";

/// A variable of the engine.
const METRICS: &str = "BRAID_METRICS";

/// Returns NCCL's variables, those of the file, then Braid's variables. Later ones take precedence.
pub(super) fn from_environment() -> Result<Vec<Given>, ConfigError> {
    braid_log::Filter::from_environment(environment::variable)?;
    let interfaces = nccl::given(nccl::INTERFACES).map(|value| Given {
        name: "ifname".to_owned(),
        setting: nccl::INTERFACES.to_owned(),
        value,
    });
    let mut given = Vec::from_iter(interfaces);
    if let Some(file) = environment::variable(FILE).filter(|file| !file.is_empty()) {
        let file = Path::new(&file);
        let text = std::fs::read_to_string(file)
            .map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
        given.extend(from_file(&text, file)?);
    }
    given.extend(
        names().filter_map(|name| variable(name, format!("{PREFIX}{}", name.to_uppercase()))),
    );
    tell_of_strangers();
    Ok(given)
}

/// An empty variable counts as unset.
fn variable(name: &str, variable: String) -> Option<Given> {
    let value = environment::variable(&variable).filter(|value| !value.is_empty())?;
    let value = value.to_string_lossy().into_owned();
    Some(Given { name: name.to_owned(), setting: variable, value })
}

/// Other programs of Braid have variables, too, so an unknown one is not an error.
fn tell_of_strangers() {
    let ours = |name: &str| {
        let is_setting = || names().any(|known| name[6..] == known.to_uppercase());
        [FILE, braid_log::VARIABLE, METRICS].contains(&name) || is_setting()
    };
    for name in environment::names(PREFIX) {
        if !ours(&name) {
            tracing::warn!("{name} is set but is no setting of the NCCL plugin; it has no effect");
        }
    }
}

pub(super) fn from_file(text: &str, file: &Path) -> Result<Vec<Given>, ConfigError> {
    let table: toml::Table =
        text.parse().map_err(|source| ConfigError::Syntax { file: file.to_owned(), source })?;
    let given = table.into_iter().map(|(name, value)| {
        if !names().any(|known| known == name) {
            let known = names().collect::<Vec<_>>().join(", ");
            return Err(ConfigError::Unknown { name, file: file.display().to_string(), known });
        }
        let setting = format!("`{name}` in {}", file.display());
        Ok(Given { name, setting, value: plain(&value) })
    });
    given.collect()
}

/// Returns the value in the format of a variable.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
