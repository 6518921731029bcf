//! The version of the NIXL that loads the plugin.
//!
//! No number in the C++ interface covers the layouts of its classes. So the plugin looks for the
//! version of the installed package, which is in the `dist-info` folder beside libnixl.

use std::fs;
use std::path::{Path, PathBuf};

/// The versions of NIXL whose libraries the plugin's declaration was held against.
pub(crate) const CHECKED: &[&str] = &["1.5.0", "1.5.1"];

/// The reason why the plugin does not serve this NIXL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    #[error(
        "NIXL {found} ({}) has loaded the plugin of Braid {}, which serves NIXL {}; install one of \
         these, or another Braid",
        library.display(), env!("CARGO_PKG_VERSION"), CHECKED.join(" and ")
    )]
    Other { found: String, library: PathBuf },
    #[error(
        "the version of the NIXL in {} is unknown: there is no dist-info folder of its package; \
         the plugin of Braid {} serves NIXL {}. If it is one of these, say so: parameter \
         `nixl_version` or BRAID_NIXL_VERSION",
        library.display(), env!("CARGO_PKG_VERSION"), CHECKED.join(" and ")
    )]
    Unknown { library: PathBuf },
}

/// Checks the version of the package that `library` belongs to, or the one that the user has
/// `named`.
pub(crate) fn check(library: &Path, named: Option<&str>) -> Result<String, VersionError> {
    let found = named.map(str::to_owned).or_else(|| installed(library));
    let library = library.to_owned();
    let found = found.ok_or_else(|| VersionError::Unknown { library: library.clone() })?;
    if CHECKED.contains(&found.as_str()) {
        Ok(found)
    } else {
        Err(VersionError::Other { found, library })
    }
}

/// Reads the version in the `dist-info` folder beside the folder of the library, such as
/// `.nixl_cu12.mesonpy.libs`.
fn installed(library: &Path) -> Option<String> {
    let folder = library.parent()?;
    let name = folder.file_name()?.to_str()?.trim_start_matches('.');
    let package = name.split('.').next().filter(|package| !package.is_empty())?;
    let start = format!("{package}-");
    let beside = fs::read_dir(folder.parent()?).ok()?;
    let info = beside.filter_map(Result::ok).map(|entry| entry.path()).find(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&start) && name.ends_with(".dist-info")
    })?;
    let metadata = fs::read_to_string(info.join("METADATA")).ok()?;
    let version = metadata.lines().find_map(|line| line.strip_prefix("Version:"))?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with packages, which goes at the end.
    struct Packages(PathBuf);

    impl Packages {
        fn with(name: &str, version: Option<&str>) -> Self {
            let folder =
                std::env::temp_dir().join(format!("braid-nixl-{}-{name}", std::process::id()));
            fs::create_dir_all(folder.join(".nixl_cu12.mesonpy.libs")).unwrap();
            if let Some(version) = version {
                let info = folder.join(format!("nixl_cu12-{version}.dist-info"));
                fs::create_dir_all(&info).unwrap();
                let text = format!("Metadata-Version: 2.4\nName: nixl-cu12\nVersion: {version}\n");
                fs::write(info.join("METADATA"), text).unwrap();
            }
            Packages(folder)
        }

        fn library(&self) -> PathBuf {
            self.0.join(".nixl_cu12.mesonpy.libs/libnixl.so")
        }
    }

    impl Drop for Packages {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_checked_version_is_served() {
        let packages = Packages::with("known", Some("1.5.1"));
        assert_eq!(check(&packages.library(), None).unwrap(), "1.5.1");
    }

    #[test]
    fn another_version_is_refused_with_both_versions() {
        let packages = Packages::with("other", Some("1.6.0"));
        let error = check(&packages.library(), None).unwrap_err().to_string();
        assert!(error.contains("NIXL 1.6.0"), "{error}");
        assert!(error.contains("NIXL 1.5.0 and 1.5.1"), "{error}");
        assert!(error.contains("install one of these"), "{error}");
    }

    #[test]
    fn an_unknown_version_can_be_named() {
        let packages = Packages::with("unknown", None);
        let error = check(&packages.library(), None).unwrap_err().to_string();
        assert!(error.contains("nixl_version"), "{error}");
        assert_eq!(check(&packages.library(), Some("1.5.0")).unwrap(), "1.5.0");
        assert!(check(&packages.library(), Some("0.9.0")).is_err());
    }
}
