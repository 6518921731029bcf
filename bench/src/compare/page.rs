//! A page whose tables a run replaces: each block from `<!-- compare NAME -->` on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const END: &str = "<!-- end -->";

/// The new content of the page.
#[derive(Debug)]
pub(super) struct MarkdownPage {
    path: PathBuf,
    text: String,
}

impl MarkdownPage {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let what = || format!("cannot read {}", path.display());
        let text = fs::read_to_string(path).map_err(|why| Failure::Io { what: what(), why })?;
        Ok(MarkdownPage { path: path.to_owned(), text })
    }

    /// Replaces the block `name` by `text`.
    ///
    /// # Errors
    /// The page has no such block.
    pub(super) fn replace(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let begin = format!("<!-- compare {name} -->");
        let found = self.text.find(&begin).map(|at| at + begin.len()).and_then(|from| {
            let length = self.text[from..].find(END)?;
            Some(from..from + length)
        });
        let Some(place) = found else {
            let text = format!("{} has no `{begin}` with `{END}` behind it", self.path.display());
            return Err(Failure::Usage(text));
        };
        self.text.replace_range(place, &format!("\n\n{text}\n\n"));
        Ok(())
    }

    /// Returns the link to a plot of this name.
    pub(super) fn image(&self, name: &str) -> String {
        let folder = self.path.file_stem().unwrap_or_default().to_string_lossy();
        format!("![{name}]({folder}/{name}.svg)")
    }

    /// Returns the folder of the page's plots, which is created if needed.
    pub(super) fn folder(&self) -> Result<PathBuf, Failure> {
        let folder = self.path.with_extension("");
        let what = || format!("cannot make {}", folder.display());
        fs::create_dir_all(&folder).map_err(|why| Failure::Io { what: what(), why })?;
        Ok(folder)
    }

    pub(super) fn write(&self) -> Result<(), Failure> {
        let what = || format!("cannot write {}", self.path.display());
        fs::write(&self.path, &self.text).map_err(|why| Failure::Io { what: what(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_block_is_replaced() {
        let block = |name: &str, text: &str| format!("<!-- compare {name} -->{text}{END}\n");
        let text = format!("head\n{}between\n{}", block("a", "old"), block("b", "\n\nkept\n\n"));
        let mut page = MarkdownPage { path: "page.md".into(), text };
        page.replace("a", "new").expect("it is there");
        let new =
            format!("head\n{}between\n{}", block("a", "\n\nnew\n\n"), block("b", "\n\nkept\n\n"));
        assert_eq!(page.text, new);
        assert_eq!(page.image("a"), "![a](page/a.svg)");
        let refused = page.replace("c", "new").expect_err("it is not there");
        assert!(refused.to_string().contains("page.md has no `<!-- compare c -->`"), "{refused}");
    }
}
