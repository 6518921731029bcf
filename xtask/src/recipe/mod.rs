//! `cargo xtask recipe` follows the recipes of CONTRIBUTING.md, word for word, in a copy of the
//! sources: a path policy, a controller and a datapath are added. The copy's tests must pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::files::{cannot, read, write};
use crate::{Failure, process, tree};

/// The page of the recipes.
const RECIPES: &str = "CONTRIBUTING.md";
/// The crates of the copy, by their names among the workspace's dependencies.
const CRATES: [&str; 9] = [
    "braid-wire",
    "braid-lb",
    "braid-cc",
    "braid-keys",
    "braid-transport",
    "braid-verbs",
    "braid",
    "braid-cuda-substitute",
    "braid-log",
];
/// The folder of the crates in the copy's workspace. Cargo identifies a crate by its path in a
/// workspace, so a copy needs another path than its original.
const COPY: &str = "copy";

/// The files that a recipe adds and changes.
struct Recipe {
    heading: &'static str,
    /// The new file.
    file: &'static str,
    /// The module that declares the file, before its first other declaration.
    declared_in: &'static str,
    /// The file of the table, which the row extends at its end.
    table: &'static str,
    /// The text after the last row.
    end: &'static str,
    /// The crate's folder.
    folder: &'static str,
    /// A test that looks the addition up by its name and uses it.
    check: &'static str,
}

static ALL: [Recipe; 3] = [
    Recipe {
        heading: "## Adding a path policy",
        file: "lb/src/policies/last.rs",
        declared_in: "lb/src/policies/mod.rs",
        table: "lb/src/policies/mod.rs",
        end: "\n}\n",
        folder: "lb",
        check: include_str!("path_policy.rs"),
    },
    Recipe {
        heading: "## Adding a controller",
        file: "cc/src/stop_and_wait.rs",
        declared_in: "cc/src/lib.rs",
        table: "cc/src/table.rs",
        end: "\n];\n",
        folder: "cc",
        check: include_str!("controller.rs"),
    },
    Recipe {
        heading: "## Adding a datapath",
        file: "engine/src/datapaths/discard/mod.rs",
        declared_in: "engine/src/datapaths/mod.rs",
        table: "engine/src/datapaths/mod.rs",
        end: "\n}\n\nstruct Row {",
        folder: "engine",
        check: include_str!("datapath.rs"),
    },
];

/// The tests of the copy: all tests of the small crates, and the added one of the engine.
const TESTS: [&[&str]; 2] =
    [&["-p", "braid-lb", "-p", "braid-cc"], &["-p", "braid-rdma", "--test", "recipe"]];

/// Follows the recipes in a copy of the crates and runs the copy's tests.
///
/// # Errors
///
/// A recipe lacks a step, or its result does not compile, is not found by its name, does not run,
/// or breaks a test.
pub fn run() -> Result<(), Failure> {
    let contributing = read(&tree::root().join(RECIPES))?;
    let target = tree::target()?;
    let workspace = target.join("xtask/recipe");
    let copy = workspace.join(COPY);
    copy_crates(&workspace)?;
    for recipe in &ALL {
        recipe.follow(&contributing, &copy)?;
    }
    TESTS.iter().try_for_each(|packages| {
        let mut test = tree::cargo();
        // The same target folder and profile as the original's, so that dependencies are compiled.
        test.current_dir(&workspace).env("CARGO_TARGET_DIR", &target);
        test.args(["test", "--quiet", "--offline"]).args(*packages);
        process::run(&mut test).map_err(|failure| {
            failure.remedy(format!(
                "the copy is in {}; repair what the compiler or the test names, or {RECIPES}",
                copy.display()
            ))
        })
    })
}

/// The code blocks of a recipe, in order.
#[derive(PartialEq, Eq, Debug)]
struct Steps {
    file: String,
    declaration: String,
    row: String,
}

impl Recipe {
    fn follow(&self, contributing: &str, copy: &Path) -> Result<(), Failure> {
        let steps = self.steps(contributing)?;
        let file = copy.join(self.file);
        write(&file, &steps.file)?;
        let declared_in = copy.join(self.declared_in);
        write(&declared_in, self.declare(&read(&declared_in)?, &steps)?)?;
        let table = copy.join(self.table);
        write(&table, self.list(&read(&table)?, &steps)?)?;
        write(&copy.join(self.folder).join("tests/recipe.rs"), self.check)
    }

    fn steps(&self, contributing: &str) -> Result<Steps, Failure> {
        let heading = self.heading;
        let recipe = section(contributing, heading)
            .ok_or_else(|| Failure::new(format!("{RECIPES} has no section `{heading}`")))?;
        let files = [self.file, self.declared_in, self.table];
        if let Some(missing) = files.into_iter().find(|file| !recipe.contains(file)) {
            return Err(Failure::new(format!("`{heading}` in {RECIPES} does not name {missing}")));
        }
        let blocks = code_blocks(recipe);
        let found = blocks.len();
        let [file, declaration, row] = blocks.try_into().map_err(|_| {
            Failure::new(format!(
                "`{heading}` in {RECIPES} has {found} blocks of code instead of 3: the file, its declaration, its row"
            ))
        })?;
        Ok(Steps { file, declaration, row })
    }

    /// The file with the declaration in it, before the first.
    fn declare(&self, text: &str, steps: &Steps) -> Result<String, Failure> {
        let first = text.find("\nmod ");
        let first = first
            .ok_or_else(|| Failure::new(format!("{} has no declaration", self.declared_in)))?;
        let (head, modules) = text.split_at(first + 1);
        Ok(format!("{head}{}{modules}", steps.declaration))
    }

    /// The file with the row in its table, as the last.
    fn list(&self, text: &str, steps: &Steps) -> Result<String, Failure> {
        let end = text.rfind(self.end);
        let end = end.ok_or_else(|| Failure::new(format!("{} has no table", self.table)))?;
        let (rows, rest) = text.split_at(end + 1);
        Ok(format!("{rows}{}{rest}", steps.row))
    }
}

/// Returns the section under `heading`, up to the next heading of the second level.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("\n{heading}\n"))?;
    Some(after.split("\n## ").next().unwrap_or(after))
}

/// The Rust blocks of a text, without the indentation of their fences.
fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in text.lines() {
        let fence = line.trim_start();
        match &mut open {
            None if fence == "```rust" => open = Some((line.len() - fence.len(), String::new())),
            None => {}
            Some((_, block)) if fence == "```" => {
                blocks.push(std::mem::take(block));
                open = None;
            }
            Some((indent, block)) => {
                block.push_str(line.get(*indent..).unwrap_or_default());
                block.push('\n');
            }
        }
    }
    blocks
}

/// Copies the crates to a workspace of their own.
fn copy_crates(workspace: &Path) -> Result<(), Failure> {
    if workspace.exists() {
        fs::remove_dir_all(workspace).map_err(|e| cannot("remove", workspace, &e))?;
    }
    let mut manifest = tree::manifest()?;
    for folder in folders(&mut manifest)? {
        let to = workspace.join(COPY).join(&folder);
        // A crate inside another one's folder is there already.
        if to.exists() {
            continue;
        }
        make_folder(to.parent().unwrap_or(workspace))?;
        let mut copy = Command::new("cp");
        process::run(copy.current_dir(tree::root()).arg("-r").arg(&folder).arg(&to))?;
    }
    let lock = workspace.join("Cargo.lock");
    fs::copy(tree::root().join("Cargo.lock"), &lock).map_err(|e| cannot("write", &lock, &e))?;
    write(&workspace.join("Cargo.toml"), smaller(manifest)?)
}

/// The folder of each crate of the copy.
fn folders(manifest: &mut toml::Table) -> Result<Vec<String>, Failure> {
    CRATES.iter().map(|name| Ok(path(manifest, name)?.clone())).collect()
}

/// The path of a crate among the workspace's dependencies.
fn path<'a>(manifest: &'a mut toml::Table, name: &str) -> Result<&'a mut String, Failure> {
    let dependencies = table(manifest, "workspace").and_then(|all| table(all, "dependencies"));
    let path = dependencies.and_then(|all| table(all, name)?.get_mut("path"));
    match path {
        Some(toml::Value::String(path)) => Ok(path),
        _ => Err(Failure::new(format!("Cargo.toml: {name} has no path"))),
    }
}

/// The workspace's manifest with the copied crates only, and without the profile that names others.
/// A warning is an error there.
fn smaller(mut manifest: toml::Table) -> Result<String, Failure> {
    let broken = |e: &dyn std::fmt::Display| Failure::new(format!("Cargo.toml: {e}"));
    table(&mut manifest, "profile").map(|profiles| profiles.remove("release"));
    for name in CRATES {
        let path = path(&mut manifest, name)?;
        *path = format!("{COPY}/{path}");
    }
    let members = folders(&mut manifest)?;
    let workspace = table(&mut manifest, "workspace").ok_or_else(|| broken(&"no workspace"))?;
    workspace.insert("members".into(), members.into());
    let lints = table(workspace, "lints").and_then(|lints| table(lints, "rust"));
    let lints = lints.ok_or_else(|| broken(&"no lints"))?;
    lints.insert("warnings".into(), "deny".into());
    toml::to_string(&manifest).map_err(|e| broken(&e))
}

fn table<'a>(of: &'a mut toml::Table, name: &str) -> Option<&'a mut toml::Table> {
    of.get_mut(name).and_then(toml::Value::as_table_mut)
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|e| cannot("make", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributing_holds_recipes_that_can_be_followed() {
        let contributing = read(&tree::root().join(RECIPES)).unwrap();
        let texts = |recipe: &Recipe| {
            let steps = recipe.steps(&contributing).unwrap();
            let text = |file| read(&tree::root().join(file)).unwrap();
            let declared = recipe.declare(&text(recipe.declared_in), &steps).unwrap();
            (declared, recipe.list(&text(recipe.table), &steps).unwrap())
        };
        let (declared, listed) = texts(&ALL[0]);
        assert!(declared.contains("\nmod last;\nmod adaptive;"), "{declared}");
        assert!(listed.contains("LAST = last::LastFactory;\n}\n"), "{listed}");
        let (declared, listed) = texts(&ALL[1]);
        assert!(declared.contains("\nmod stop_and_wait;\nmod bandwidth;"), "{declared}");
        assert!(listed.contains("crate::stop_and_wait::ROW,\n];\n"), "{listed}");
        let (declared, listed) = texts(&ALL[2]);
        assert!(declared.contains("\nmod discard;\nmod auto;"), "{declared}");
        assert!(listed.contains("Discard = discard::Discard;\n}\n"), "{listed}");
    }

    #[test]
    fn blocks_lose_the_indentation_of_their_fences_only() {
        let text = "1. First.\n\n   ```rust\n   fn a() {\n       b();\n\n   }\n   ```\n```sh\nno\n```\n```rust\nx\n```\n";
        assert_eq!(code_blocks(text), ["fn a() {\n    b();\n\n}\n", "x\n"]);
    }

    #[test]
    fn a_recipe_that_lacks_a_block_or_a_file_is_refused() {
        let recipe = &ALL[0];
        let refused = |text: &str| recipe.steps(text).unwrap_err().to_string();
        assert!(refused("# Other\n").contains(recipe.heading));
        let head = format!("# A\n\n{}\n\n", recipe.heading);
        assert!(refused(&head).contains(recipe.file));
        let error = refused(&format!(
            "{head}`{}` `{}`\n```rust\na\n```\n\n## Next\n```rust\nb\n```\n",
            recipe.file, recipe.table
        ));
        assert!(error.contains("1 blocks of code instead of 3"), "{error}");
    }
}
