//! `cargo xtask recipe`: CONTRIBUTING.md says how a path policy is added; here that is done, word for word, in a copy of
//! the sources, and the copy's tests must pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Failure, process, tree};

/// Where the recipe stands.
const RECIPE: &str = "CONTRIBUTING.md";
const HEADING: &str = "## Adding a path policy";
/// What it says to write, and what to change.
const POLICY: &str = "lb/src/policies/last.rs";
const TABLE: &str = "lb/src/policies/mod.rs";
/// The crates that the copy consists of.
const CRATES: [&str; 2] = ["wire", "lb"];
/// Asks the copy for the policy by its name, and looks which path is picked.
const CHECK: &str = include_str!("check.rs");

/// Follows the recipe in a copy of the crates, and runs the tests of that.
///
/// # Errors
///
/// The recipe does not say what it should, or a policy that was made by it does not compile, is not found by its name, is not
/// the one that runs, or breaks a test.
pub fn run() -> Result<(), Failure> {
    let steps = Steps::read(&read(&tree::root().join(RECIPE))?)?;
    // Cargo tells crates apart by their places within the workspace, so the copy must not be built where the original is.
    let folder = tree::target()?.join("recipe");
    let (copy, build) = (folder.join("copy"), folder.join("build"));
    copy_crates(&copy)?;
    write(&copy.join(POLICY), &steps.policy)?;
    let table = copy.join(TABLE);
    write(&table, &steps.change(&read(&table)?)?)?;
    write(&copy.join("lb/tests/recipe.rs"), CHECK)?;
    let mut test = tree::cargo();
    test.current_dir(&copy).env("CARGO_TARGET_DIR", build).env("RUSTFLAGS", "-D warnings");
    process::run(test.args(["test", "--quiet", "--offline", "--package", "braid-lb"])).map_err(
        |failure| {
            failure.remedy(format!(
                "the copy is in {}; repair what the compiler or the test names, or {RECIPE}",
                copy.display()
            ))
        },
    )
}

/// The code blocks of the recipe, in their order.
#[derive(PartialEq, Eq, Debug)]
struct Steps {
    /// The policy's file.
    policy: String,
    /// Its declaration and its row.
    declaration: String,
    row: String,
}

impl Steps {
    fn read(contributing: &str) -> Result<Steps, Failure> {
        let recipe = section(contributing, HEADING)
            .ok_or_else(|| Failure::new(format!("{RECIPE} has no section `{HEADING}`")))?;
        if let Some(missing) = [POLICY, TABLE].into_iter().find(|file| !recipe.contains(file)) {
            return Err(Failure::new(format!("`{HEADING}` in {RECIPE} does not name {missing}")));
        }
        let blocks = code_blocks(recipe);
        let found = blocks.len();
        let [policy, declaration, row] = blocks.try_into().map_err(|_| {
            Failure::new(format!(
                "`{HEADING}` in {RECIPE} has {found} blocks of code instead of 3: the file, its declaration, its row"
            ))
        })?;
        Ok(Steps { policy, declaration, row })
    }

    /// The table's file with the policy in it: declared where the first is, and as the last row.
    fn change(&self, table: &str) -> Result<String, Failure> {
        let cannot = |what: &str| Failure::new(format!("{TABLE} has no {what}"));
        let first = table.find("\nmod ").ok_or_else(|| cannot("declaration"))? + 1;
        let end = table.rfind("\n}").ok_or_else(|| cannot("table at its end"))? + 1;
        let (head, modules, rest) = (&table[..first], &table[first..end], &table[end..]);
        Ok(format!("{head}{}{modules}{}{rest}", self.declaration, self.row))
    }
}

/// What stands between a heading and the next of its kind.
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

/// The crates, and the manifest of a workspace of nothing else.
fn copy_crates(to: &Path) -> Result<(), Failure> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|e| cannot("remove", to, &e))?;
    }
    fs::create_dir_all(to).map_err(|e| cannot("make", to, &e))?;
    let mut copy = Command::new("cp");
    copy.current_dir(tree::root()).arg("-r").args(CRATES).arg("Cargo.lock").arg(to);
    process::run(&mut copy)?;
    write(&to.join("Cargo.toml"), &smaller(&read(&tree::root().join("Cargo.toml"))?)?)
}

/// The workspace's manifest with these members only, and without the profile that names others.
fn smaller(manifest: &str) -> Result<String, Failure> {
    let broken = |e: &dyn std::fmt::Display| Failure::new(format!("Cargo.toml: {e}"));
    let mut manifest: toml::Table = toml::from_str(manifest).map_err(|e| broken(&e))?;
    if let Some(profiles) = manifest.get_mut("profile").and_then(toml::Value::as_table_mut) {
        profiles.remove("release");
    }
    let workspace = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let workspace = workspace.ok_or_else(|| broken(&"no workspace"))?;
    workspace.insert("members".into(), CRATES.to_vec().into());
    toml::to_string(&manifest).map_err(|e| broken(&e))
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| cannot("read", path, &e))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| cannot("write", path, &e))
}

fn cannot(what: &str, path: &Path, why: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributing_holds_a_recipe_that_can_be_followed() {
        let text = read(&tree::root().join(RECIPE)).unwrap();
        let steps = Steps::read(&text).unwrap();
        let table = steps.change(&read(&tree::root().join(TABLE)).unwrap()).unwrap();
        assert!(table.contains("\nmod last;\nmod dr;"), "{table}");
        assert!(table.ends_with("LAST = last::Factory;\n}\n"), "{table}");
    }

    #[test]
    fn blocks_lose_the_indentation_of_their_fences_only() {
        let text = "1. First.\n\n   ```rust\n   fn a() {\n       b();\n\n   }\n   ```\n```sh\nno\n```\n```rust\nx\n```\n";
        assert_eq!(code_blocks(text), ["fn a() {\n    b();\n\n}\n", "x\n"]);
    }

    #[test]
    fn a_recipe_that_lacks_a_block_or_a_file_is_refused() {
        let refused = |text: &str| Steps::read(text).unwrap_err().to_string();
        assert!(refused("# Other\n").contains(HEADING));
        let head = format!("# A\n\n{HEADING}\n\n");
        assert!(refused(&head).contains(POLICY));
        let error = refused(&format!(
            "{head}`{POLICY}` `{TABLE}`\n```rust\na\n```\n\n## Next\n```rust\nb\n```\n"
        ));
        assert!(error.contains("1 blocks of code instead of 3"), "{error}");
    }
}
