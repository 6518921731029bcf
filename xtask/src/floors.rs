//! The floors check: a crate uses only crates on lower floors of the house.

use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, Metadata};

use crate::{Failure, tree};

/// The top-level folders from the ground up; those of one row stand on the same floor.
pub const FLOORS: &[&[&str]] = &[
    &["wire"],
    &["lb", "cc"],
    &["transport"],
    &["verbs-shim"],
    &["engine", "sim"],
    &["ffi"],
    &["nccl"],
    &["bench", "examples"],
];

/// Beside the house: they may use anything, and nothing may use them.
pub const BESIDE: &[&str] = &["xtask", "fuzz", "ci-softroce"];

/// Crates that one folder alone may use, and that folder.
const RESERVED: &[(&str, &str)] = &[("verbs-shim", "engine")];

/// A crate of the workspace and the folders it uses, dev- and build-dependencies included.
#[derive(Clone, Debug)]
pub struct Crate {
    /// Its top-level folder.
    pub folder: String,
    /// Each crate of this repository that it names.
    pub uses: Vec<Use>,
}

/// One dependency inside the repository.
#[derive(Clone, Debug)]
pub struct Use {
    /// The top-level folder of the crate that is used.
    pub folder: String,
    /// The table it stands in: `dependencies`, `dev-dependencies` or `build-dependencies`.
    pub table: &'static str,
}

/// Reads the workspace's crates.
pub fn crates() -> Result<Vec<Crate>, Failure> {
    let metadata = tree::metadata()?;
    let root = metadata.workspace_root.as_std_path();
    Ok(metadata
        .packages
        .iter()
        .map(|package| Crate {
            folder: top_folder(root, package.manifest_path.as_std_path()),
            uses: package.dependencies.iter().filter_map(|d| use_of(&metadata, d)).collect(),
        })
        .collect())
}

/// Every breach of the floors, in words.
pub fn check(crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(check_crate).collect()
}

fn check_crate(user: &Crate) -> Vec<String> {
    let mut breaches = Vec::new();
    if floor(&user.folder).is_none() && !beside(&user.folder) {
        breaches
            .push(format!("{}/ is on no floor: give it one in xtask/src/floors.rs", user.folder));
    }
    breaches.extend(user.uses.iter().filter_map(|used| check_use(&user.folder, used)));
    breaches
}

fn check_use(user: &str, used: &Use) -> Option<String> {
    let Use { folder, table } = used;
    if beside(folder) {
        return Some(format!("{user}/ uses {folder}/ ({table}), which nothing may depend on"));
    }
    if let Some((_, owner)) = RESERVED.iter().find(|(r, owner)| r == folder && *owner != user) {
        return Some(format!("{user}/ uses {folder}/ ({table}), which only {owner}/ may use"));
    }
    let Some(below) = floor(folder) else {
        return Some(format!("{user}/ uses {folder}/ ({table}), which is on no floor"));
    };
    match floor(user) {
        Some(above) if above > below => None,
        // Crates that share a folder stand beside each other; cargo refuses a circle.
        Some(_) if user == folder => None,
        Some(above) => {
            let which = if above == below { "the same" } else { "a higher" };
            Some(format!("{user}/ uses {folder}/ ({table}), which is on {which} floor"))
        }
        None => None,
    }
}

fn floor(folder: &str) -> Option<usize> {
    FLOORS.iter().position(|row| row.contains(&folder))
}

fn beside(folder: &str) -> bool {
    BESIDE.contains(&folder)
}

fn top_folder(root: &Path, inside: &Path) -> String {
    let first = inside.strip_prefix(root).ok().and_then(|rest| rest.components().next());
    match first {
        Some(folder) => folder.as_os_str().to_string_lossy().into_owned(),
        None => inside.display().to_string(),
    }
}

/// A dependency on this repository, whether by path or by the published name.
fn use_of(metadata: &Metadata, dependency: &Dependency) -> Option<Use> {
    let root = metadata.workspace_root.as_std_path();
    let by_name = || {
        let package = metadata.packages.iter().find(|p| p.name.as_str() == dependency.name)?;
        Some(package.manifest_path.as_std_path())
    };
    let place = match &dependency.path {
        Some(path) => path.as_std_path(),
        None => by_name()?,
    };
    let table = match dependency.kind {
        DependencyKind::Development => "dev-dependencies",
        DependencyKind::Build => "build-dependencies",
        _ => "dependencies",
    };
    Some(Use { folder: top_folder(root, place), table })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(edges: &[(&str, &str)]) -> Vec<String> {
        let crates: Vec<Crate> = edges
            .iter()
            .map(|(user, used)| Crate {
                folder: (*user).into(),
                uses: vec![Use { folder: (*used).into(), table: "dependencies" }],
            })
            .collect();
        check(&crates)
    }

    #[test]
    fn downward_is_fine() {
        let edges = [
            ("lb", "wire"),
            ("transport", "cc"),
            ("engine", "verbs-shim"),
            ("engine", "wire"),
            ("sim", "transport"),
            ("nccl", "ffi"),
            ("examples", "engine"),
            ("fuzz", "wire"),
            ("bench", "bench"),
        ];
        assert_eq!(house(&edges), Vec::<String>::new());
    }

    #[test]
    fn upward_and_sideways_fail() {
        for (user, used) in
            [("wire", "lb"), ("transport", "engine"), ("engine", "bench"), ("cc", "transport")]
        {
            let breaches = house(&[(user, used)]);
            assert_eq!(breaches.len(), 1, "{user} -> {used}");
            assert!(breaches[0].contains("a higher floor"), "{breaches:?}");
        }
        for (user, used) in [("lb", "cc"), ("sim", "engine"), ("examples", "bench")] {
            let breaches = house(&[(user, used)]);
            assert_eq!(breaches.len(), 1, "{user} -> {used}");
            assert!(breaches[0].contains("the same floor"), "{breaches:?}");
        }
    }

    #[test]
    fn dev_dependencies_count() {
        let engine = Crate {
            folder: "engine".into(),
            uses: vec![Use { folder: "bench".into(), table: "dev-dependencies" }],
        };
        let breaches = check(&[engine]);
        assert_eq!(breaches.len(), 1);
        assert!(breaches[0].contains("dev-dependencies"), "{breaches:?}");
    }

    #[test]
    fn only_the_engine_uses_verbs() {
        for user in ["ffi", "bench", "nccl", "sim"] {
            let breaches = house(&[(user, "verbs-shim")]);
            assert_eq!(breaches.len(), 1, "{user}");
            assert!(breaches[0].contains("only engine/ may use"), "{breaches:?}");
        }
    }

    #[test]
    fn nothing_uses_what_stands_beside_the_house() {
        for (user, used) in [("bench", "xtask"), ("wire", "fuzz"), ("xtask", "fuzz")] {
            assert_eq!(house(&[(user, used)]).len(), 1, "{user} -> {used}");
        }
    }

    #[test]
    fn a_new_folder_needs_a_floor() {
        let breaches = house(&[("shed", "wire")]);
        assert!(breaches[0].contains("on no floor"), "{breaches:?}");
        let breaches = house(&[("bench", "shed")]);
        assert!(breaches[0].contains("on no floor"), "{breaches:?}");
    }

    #[test]
    fn a_path_names_its_top_folder() {
        let root = Path::new("/home/braid");
        assert_eq!(top_folder(root, Path::new("/home/braid/lb/Cargo.toml")), "lb");
        assert_eq!(top_folder(root, Path::new("/elsewhere/lb")), "/elsewhere/lb");
    }
}
