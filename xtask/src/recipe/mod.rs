//! `cargo xtask recipe`: CONTRIBUTING.md says how a path policy and a controller are added; here that is done, word for word, in a copy
//! of the sources, and the copy's tests must pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Failure, process, tree};

/// Where the recipes stand.
const RECIPES: &str = "CONTRIBUTING.md";
/// The crates that the copy consists of.
const CRATES: [&str; 3] = ["wire", "lb", "cc"];
/// Their folder in the copy's workspace. Cargo tells crates apart by their places in a workspace, so
/// the copies must not lie where the originals do.
const COPY: &str = "copy";

/// What one of them says to write, and what to change.
struct Recipe {
    heading: &'static str,
    /// The new file.
    file: &'static str,
    /// Where it is declared, before the first that is.
    declared_in: &'static str,
    /// Where its row comes last, and what ends the table there.
    table: &'static str,
    end: &'static str,
    /// The crate's folder, and a test that asks the copy for what was added by its name.
    folder: &'static str,
    check: &'static str,
}

static ALL: [Recipe; 2] = [
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
];

/// Follows the recipes in a copy of the crates, and runs the tests of that.
///
/// # Errors
///
/// A recipe does not say what it should, or what was made by it does not compile, is not found by its name, is not what runs, or
/// breaks a test.
pub fn run() -> Result<(), Failure> {
    let contributing = read(&tree::root().join(RECIPES))?;
    let target = tree::target()?;
    let workspace = target.join("xtask/recipe");
    let copy = workspace.join(COPY);
    copy_crates(&workspace)?;
    for recipe in &ALL {
        recipe.follow(&contributing, &copy)?;
    }
    let mut test = tree::cargo();
    // In the same folder and with the same profile as the original, whose dependencies serve.
    test.current_dir(&workspace).env("CARGO_TARGET_DIR", target);
    process::run(test.args(["test", "--quiet", "--offline", "-p", "braid-lb", "-p", "braid-cc"]))
        .map_err(|failure| {
            failure.remedy(format!(
                "the copy is in {}; repair what the compiler or the test names, or {RECIPES}",
                copy.display()
            ))
        })
}

/// The code blocks of a recipe, in their order.
#[derive(PartialEq, Eq, Debug)]
struct Steps {
    file: String,
    declaration: String,
    row: String,
}

impl Recipe {
    fn follow(&self, contributing: &str, copy: &Path) -> Result<(), Failure> {
        let steps = self.steps(contributing)?;
        write(&copy.join(self.file), &steps.file)?;
        let declared_in = copy.join(self.declared_in);
        write(&declared_in, &self.declare(&read(&declared_in)?, &steps)?)?;
        let table = copy.join(self.table);
        write(&table, &self.list(&read(&table)?, &steps)?)?;
        let tests = copy.join(self.folder).join("tests");
        fs::create_dir_all(&tests).map_err(|e| cannot("make", &tests, &e))?;
        write(&tests.join("recipe.rs"), self.check)
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

/// The crates, in a workspace of nothing else.
fn copy_crates(workspace: &Path) -> Result<(), Failure> {
    if workspace.exists() {
        fs::remove_dir_all(workspace).map_err(|e| cannot("remove", workspace, &e))?;
    }
    let to = workspace.join(COPY);
    fs::create_dir_all(&to).map_err(|e| cannot("make", &to, &e))?;
    let mut copy = Command::new("cp");
    process::run(copy.current_dir(tree::root()).arg("-r").args(CRATES).arg(&to))?;
    let lock = workspace.join("Cargo.lock");
    fs::copy(tree::root().join("Cargo.lock"), &lock).map_err(|e| cannot("write", &lock, &e))?;
    write(&workspace.join("Cargo.toml"), &smaller(tree::manifest()?)?)
}

/// The workspace's manifest with the copied crates only, and without the profile that names others.
/// A warning is an error there.
fn smaller(mut manifest: toml::Table) -> Result<String, Failure> {
    let broken = |e: &dyn std::fmt::Display| Failure::new(format!("Cargo.toml: {e}"));
    table(&mut manifest, "profile").map(|profiles| profiles.remove("release"));
    let workspace = table(&mut manifest, "workspace").ok_or_else(|| broken(&"no workspace"))?;
    let members: Vec<String> = CRATES.iter().map(|folder| format!("{COPY}/{folder}")).collect();
    workspace.insert("members".into(), members.into());
    for folder in CRATES {
        let dependencies = table(workspace, "dependencies");
        let dependency = dependencies.and_then(|all| table(all, &format!("braid-{folder}")));
        let dependency = dependency.ok_or_else(|| broken(&format!("no braid-{folder}")))?;
        dependency.insert("path".into(), format!("{COPY}/{folder}").into());
    }
    let lints = table(workspace, "lints").and_then(|lints| table(lints, "rust"));
    let lints = lints.ok_or_else(|| broken(&"no lints"))?;
    lints.insert("warnings".into(), "deny".into());
    toml::to_string(&manifest).map_err(|e| broken(&e))
}

fn table<'a>(of: &'a mut toml::Table, name: &str) -> Option<&'a mut toml::Table> {
    of.get_mut(name).and_then(toml::Value::as_table_mut)
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
        assert!(declared.contains("\nmod stop_and_wait;\nmod base_rtt;"), "{declared}");
        assert!(listed.contains("crate::stop_and_wait::ROW,\n];\n"), "{listed}");
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
