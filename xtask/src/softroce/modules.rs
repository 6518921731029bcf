//! Kernel modules: which ones another needs, read out of the modules themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// The modules below a folder, by name.
pub(super) struct KernelModules {
    paths: BTreeMap<String, PathBuf>,
}

/// A module in the order of loading.
pub(super) struct KernelModule {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl KernelModules {
    pub(super) fn find(folder: &Path) -> Result<Self, Failure> {
        let mut paths = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(|e| cannot_read(&folder, &e))?;
            for entry in entries {
                let path = entry.map_err(|e| cannot_read(&folder, &e))?.path();
                match path.file_name().map(|name| name.to_string_lossy().into_owned()) {
                    _ if path.is_dir() && !path.is_symlink() => folders.push(path),
                    // `.ko`, or compressed, which is refused with its name when it is asked for.
                    Some(file) if file.contains(".ko") => {
                        let name = file.split('.').next().unwrap_or_default();
                        paths.insert(name.replace('-', "_"), path);
                    }
                    _ => {}
                }
            }
        }
        Ok(Self { paths })
    }

    /// The wanted modules and all they need, each after what it needs.
    pub(super) fn closure(&self, wanted: &[String]) -> Result<Vec<KernelModule>, Failure> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
        for name in wanted {
            self.visit(name, &mut seen, &mut order)?;
        }
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        seen: &mut BTreeSet<String>,
        order: &mut Vec<KernelModule>,
    ) -> Result<(), Failure> {
        let name = name.replace('-', "_");
        if !seen.insert(name.clone()) {
            return Ok(());
        }
        let path = self.paths.get(&name).ok_or_else(|| {
            Failure::new(format!("this kernel has no module {name}"))
                .remedy("take it out of ci-softroce/modules if it is built in by now")
        })?;
        if path.extension().is_none_or(|extension| extension != "ko") {
            let remedy = "add its compression to xtask/src/softroce/modules.rs";
            let what = format!("{} is compressed", path.display());
            return Err(Failure::new(what).remedy(remedy));
        }
        let content = fs::read(path).map_err(|e| cannot_read(path, &e))?;
        for need in needs(&content) {
            self.visit(&need, seen, order)?;
        }
        order.push(KernelModule { name, content });
        Ok(())
    }
}

/// `depends=A,B` among the strings of the section `.modinfo`, each of which ends with a zero.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_needs() {
        assert_eq!(needs(b"\x7fELF\0license=GPL\0depends=a,b_c\0name=d\0"), ["a", "b_c"]);
        assert!(needs(b"\0depends=\0name=d\0").is_empty());
        assert!(needs(b"\0name=depends\0").is_empty());
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let folder = std::env::temp_dir().join(format!("modules-{}", std::process::id()));
        fs::create_dir_all(folder.join("deep")).expect("a folder");
        for (file, text) in [
            ("top-one.ko", "\0depends=middle,base\0"),
            ("deep/middle.ko", "\0depends=base\0"),
            ("deep/base.ko", "\0depends=\0"),
            ("packed.ko.xz", ""),
        ] {
            fs::write(folder.join(file), text).expect("a file");
        }
        let modules = KernelModules::find(&folder).expect("readable");
        let order = modules.closure(&["top_one".into(), "base".into()]).expect("all are there");
        let names: Vec<&str> = order.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["base", "middle", "top_one"]);
        for (name, why) in [("absent", "no module absent"), ("packed", "is compressed")] {
            let failure = modules.closure(&[name.into()]).err().expect("refused").to_string();
            assert!(failure.contains(why), "{failure}");
        }
        fs::remove_dir_all(folder).expect("ours to remove");
    }
}
