//! The order of the crates: a crate uses only crates of lower layers.

use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, Metadata};

use crate::{Failure, tree};

/// The top-level folders from the lowest layer up; those of one row share a layer.
pub const LAYERS: &[&[&str]] = &[
    &["wire", "lab", "log"],
    &["lb", "cc", "keys"],
    &["transport"],
    &["verbs-shim"],
    &["engine", "sim"],
    &["ffi", "ibverbs"],
    &["nccl", "nixl", "python", "tokio"],
    &["bench", "studies", "examples"],
];

/// Above all layers: they may use anything, and nothing may use them.
pub const UNUSED: &[&str] = &["xtask", "fuzz", "ci-softroce"];

/// Crates that only some folders may use, and those folders.
const RESERVED: &[(&str, &[&str])] =
    &[("verbs-shim", &["engine", "ibverbs"]), ("lab", &["bench", "nccl", "studies", "xtask"])];

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

/// Every breach of the order, in words.
pub fn check(crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(check_crate).collect()
}

fn check_crate(user: &Crate) -> Vec<String> {
    let mut breaches = Vec::new();
    if layer(&user.folder).is_none() && !is_unused(&user.folder) {
        breaches
            .push(format!("{}/ is in no layer: give it one in xtask/src/layers.rs", user.folder));
    }
    breaches.extend(user.uses.iter().filter_map(|used| check_use(&user.folder, used)));
    breaches
}

fn check_use(user: &str, used: &Use) -> Option<String> {
    let Use { folder, table } = used;
    if is_unused(folder) {
        return Some(format!("{user}/ uses {folder}/ ({table}), which nothing may depend on"));
    }
    let may_not = |users: &[&str]| user != folder && !users.contains(&user);
    if let Some((_, users)) = RESERVED.iter().find(|(r, users)| r == folder && may_not(users)) {
        let users = users.join("/ and ");
        return Some(format!("{user}/ uses {folder}/ ({table}), which only {users}/ may use"));
    }
    let Some(below) = layer(folder) else {
        return Some(format!("{user}/ uses {folder}/ ({table}), which is in no layer"));
    };
    match layer(user) {
        Some(above) if above > below => None,
        // Crates that share a folder may use each other; cargo refuses a circle.
        Some(_) if user == folder => None,
        Some(above) => {
            let which = if above == below { "the same" } else { "a higher" };
            Some(format!("{user}/ uses {folder}/ ({table}), which is in {which} layer"))
        }
        None => None,
    }
}

fn layer(folder: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&folder))
}

fn is_unused(folder: &str) -> bool {
    UNUSED.contains(&folder)
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

    fn breaches(edges: &[(&str, &str)]) -> Vec<String> {
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
        assert_eq!(breaches(&edges), Vec::<String>::new());
    }

    #[test]
    fn upward_and_sideways_fail() {
        for (user, used) in
            [("wire", "lb"), ("transport", "engine"), ("engine", "bench"), ("cc", "transport")]
        {
            let found = breaches(&[(user, used)]);
            assert_eq!(found.len(), 1, "{user} -> {used}");
            assert!(found[0].contains("a higher layer"), "{found:?}");
        }
        for (user, used) in [("lb", "cc"), ("sim", "engine"), ("examples", "bench")] {
            let found = breaches(&[(user, used)]);
            assert_eq!(found.len(), 1, "{user} -> {used}");
            assert!(found[0].contains("the same layer"), "{found:?}");
        }
    }

    #[test]
    fn dev_dependencies_count() {
        let engine = Crate {
            folder: "engine".into(),
            uses: vec![Use { folder: "bench".into(), table: "dev-dependencies" }],
        };
        let found = check(&[engine]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("dev-dependencies"), "{found:?}");
    }

    #[test]
    fn reserved_crates_have_their_users() {
        for user in ["ffi", "bench", "nccl", "sim"] {
            let found = breaches(&[(user, "verbs-shim")]);
            assert_eq!(found.len(), 1, "{user}");
            assert!(found[0].contains("only engine/ and ibverbs/ may use"), "{found:?}");
        }
        let found = breaches(&[("engine", "lab")]);
        assert!(
            found[0].contains("only bench/ and nccl/ and studies/ and xtask/ may use"),
            "{found:?}"
        );
        assert!(breaches(&[("bench", "lab"), ("xtask", "lab")]).is_empty());
    }

    #[test]
    fn nothing_uses_chores() {
        for (user, used) in [("bench", "xtask"), ("wire", "fuzz"), ("xtask", "fuzz")] {
            assert_eq!(breaches(&[(user, used)]).len(), 1, "{user} -> {used}");
        }
    }

    #[test]
    fn a_new_folder_needs_a_layer() {
        let found = breaches(&[("shed", "wire")]);
        assert!(found[0].contains("in no layer"), "{found:?}");
        let found = breaches(&[("bench", "shed")]);
        assert!(found[0].contains("in no layer"), "{found:?}");
    }

    #[test]
    fn a_path_names_its_top_folder() {
        let root = Path::new("/home/braid");
        assert_eq!(top_folder(root, Path::new("/home/braid/lb/Cargo.toml")), "lb");
        assert_eq!(top_folder(root, Path::new("/elsewhere/lb")), "/elsewhere/lb");
    }
}
