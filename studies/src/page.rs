//! The page of a study, read back: the claims with their verdicts, and the seeds of its runs.
//!
//! A run of the same seeds must come to the same verdicts, or either the page or the program is
//! wrong.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::batch::Effort;
use crate::study::{Claim, Study};
use crate::write::{CLAIMS_HEAD, ORIGIN_HEAD, cell_text};

/// The reason why a page could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The file cannot be read.
    #[error("cannot read the page {}: {why}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// The file is not a page of `braid-sim reproduce`.
    #[error(
        "{} is no page of a study: {missing}; write it again with `cargo xtask studies --write`",
        path.display()
    )]
    NoPage {
        /// The path of the file.
        path: PathBuf,
        /// The part that is missing.
        missing: &'static str,
    },
}

/// A page with the results of a study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    first_seed: u64,
    last_seed: u64,
    claims: Vec<PageClaim>,
}

/// A claim as the page has it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PageClaim {
    figure: String,
    says: String,
    measured: String,
    /// The verdict, without its reason.
    verdict: String,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The file cannot be read, or is not a page of a study.
    pub fn read(path: &Path) -> Result<Page, PageError> {
        let text = fs::read_to_string(path)
            .map_err(|why| PageError::File { path: path.to_owned(), why })?;
        Page::parse(&text).map_err(|missing| PageError::NoPage { path: path.to_owned(), missing })
    }

    fn parse(text: &str) -> Result<Page, &'static str> {
        let origin = rows(text, ORIGIN_HEAD).next().ok_or("it does not name its seeds")?;
        let seeds = origin.get(1).and_then(|cell| cell.split_once(" to "));
        let seeds = seeds.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let (first_seed, last_seed) =
            seeds.filter(|(first, last)| first <= last).ok_or("its seeds are not `A to B`")?;
        let claims: Option<Vec<PageClaim>> = rows(text, CLAIMS_HEAD).map(PageClaim::of).collect();
        let claims = claims.filter(|claims| !claims.is_empty());
        Ok(Page { first_seed, last_seed, claims: claims.ok_or("it has no table of claims")? })
    }

    /// Returns the effort of the page's runs.
    pub fn effort(&self) -> Effort {
        let seeds = u32::try_from(self.last_seed - self.first_seed).unwrap_or(u32::MAX);
        Effort { quick: false, seeds: seeds.saturating_add(1), first_seed: self.first_seed }
    }

    /// Compares the verdicts of a study with the page's. `is_whole`: the study has every
    /// experiment, so that each claim of the page has to be in it.
    pub fn compare(&self, study: &Study, is_whole: bool) -> PageDifferences {
        let mut found = PageDifferences { judged: study.claims.len(), ..Default::default() };
        for claim in &study.claims {
            let (figure, says) = (cell_text(&claim.figure), cell_text(&claim.says));
            let page = self.claims.iter().find(|page| page.figure == figure && page.says == says);
            let difference = PageDifference::of(claim, page, study.experiment_of(claim));
            match page {
                Some(page) if page.verdict == claim.verdict.name() => {
                    found.moved.extend(
                        (page.measured != cell_text(&claim.measured)).then_some(difference),
                    );
                }
                _ => found.verdicts.push(difference),
            }
        }
        if is_whole {
            let is_missing = |page: &&PageClaim| {
                study.claims.iter().all(|claim| {
                    (cell_text(&claim.figure), cell_text(&claim.says))
                        != (page.figure.clone(), page.says.clone())
                })
            };
            let missing = self.claims.iter().filter(is_missing);
            found.verdicts.extend(missing.map(PageDifference::without_claim));
        }
        found
    }
}

/// Returns the rows below a heading of a table, up to its end.
fn rows<'a>(text: &'a str, heading: &str) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let heading = heading.to_owned();
    let below = text.lines().skip_while(move |line| *line != heading).skip(2);
    below.take_while(|line| line.starts_with('|')).map(cells)
}

/// Splits a row at its bars. A bar with a backslash before it belongs to a cell.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut letters = row.trim().trim_start_matches('|').chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&'|') => {
                letters.next();
                cells.last_mut().expect("one at least").push_str("\\|");
            }
            '|' => cells.push(String::new()),
            letter => cells.last_mut().expect("one at least").push(letter),
        }
    }
    cells.pop();
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

impl PageClaim {
    fn of(cells: Vec<String>) -> Option<PageClaim> {
        let [figure, says, measured, verdict] = <[String; 4]>::try_from(cells).ok()?;
        let verdict = verdict.split(':').next().unwrap_or_default().to_owned();
        Some(PageClaim { figure, says, measured, verdict })
    }
}

/// The differences between a page and a study of the same seeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageDifferences {
    /// Number of claims that the study judged.
    pub judged: usize,
    /// The claims whose verdicts differ, or which only one of the two has.
    pub verdicts: Vec<PageDifference>,
    /// The claims with the page's verdict and other measurements.
    pub moved: Vec<PageDifference>,
}

/// A claim about which page and study differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageDifference {
    claim: String,
    /// The experiment that tests it.
    experiment: Option<&'static str>,
    page: Option<[String; 2]>,
    run: Option<[String; 2]>,
}

impl PageDifference {
    fn of(
        claim: &Claim,
        page: Option<&PageClaim>,
        experiment: Option<&'static str>,
    ) -> PageDifference {
        let why = claim.verdict.reason().map_or(String::new(), |why| format!(": {why}"));
        PageDifference {
            claim: format!("{}: {}", claim.figure, claim.says),
            experiment,
            page: page.map(|page| [page.verdict.clone(), page.measured.clone()]),
            run: Some([format!("{}{why}", claim.verdict.name()), claim.measured.clone()]),
        }
    }

    fn without_claim(page: &PageClaim) -> PageDifference {
        PageDifference {
            claim: format!("{}: {}", page.figure, page.says),
            experiment: None,
            page: Some([page.verdict.clone(), page.measured.clone()]),
            run: None,
        }
    }
}

impl PageDifferences {
    /// Formats the differences, each with the command that replays it on this page.
    pub fn text(&self, paper: &str, page: &Path) -> String {
        let mut text = String::new();
        for (differences, what) in [(&self.moved, "moved"), (&self.verdicts, "DIFFERS")] {
            for difference in differences {
                text += &format!("{what}  {difference}");
                let only =
                    difference.experiment.map_or(String::new(), |name| format!("--only {name} "));
                let page = page.display();
                text += &format!("  replay  braid-sim reproduce {paper} {only}--check {page}\n");
            }
        }
        text + &format!(
            "{} claims judged as on {}: {} verdicts differ, {} measurements moved\n",
            self.judged,
            page.display(),
            self.verdicts.len(),
            self.moved.len()
        )
    }
}

impl fmt::Display for PageDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.claim)?;
        for (name, side) in [("page", &self.page), ("run ", &self.run)] {
            match side {
                Some([verdict, measured]) => {
                    writeln!(f, "  {name}    {verdict}\n          {measured}")?
                }
                None => writeln!(f, "  {name}    does not have this claim")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Origin, Verdict};
    use crate::write::markdown;

    fn study() -> Study {
        let claim = |figure: &str, verdict| Claim {
            figure: figure.into(),
            says: "|L| grows".into(),
            measured: "by 3 | packets".into(),
            verdict,
        };
        Study {
            paper: "paper",
            title: "A paper",
            notes: "",
            origin: Origin::of("paper", &Effort { quick: false, seeds: 3, first_seed: 5 }, &[]),
            experiments: vec![("first", 1), ("second", 2)],
            shipped: Vec::new(),
            figures: Vec::new(),
            claims: vec![
                claim("fig01", Verdict::Reproduced),
                claim("fig02", Verdict::Differs("no: it shrinks".into())),
                claim("fig03", Verdict::NotTested("no chip".into())),
            ],
            choices: Vec::new(),
        }
    }

    #[test]
    fn a_page_agrees_with_the_study_that_wrote_it() {
        let page = Page::parse(&markdown(&study())).unwrap();
        assert_eq!(page.effort(), Effort { quick: false, seeds: 3, first_seed: 5 });
        let found = page.compare(&study(), true);
        assert_eq!(found, PageDifferences { judged: 3, ..Default::default() });
    }

    #[test]
    fn an_altered_verdict_is_refused_with_the_command_that_replays_it() {
        let altered = markdown(&study()).replace("| differs: no: it shrinks |", "| reproduced |");
        let found = Page::parse(&altered).unwrap().compare(&study(), true);
        let text = found.text("paper", Path::new("docs/paper.md"));
        assert_eq!((found.verdicts.len(), found.moved.len()), (1, 0), "{text}");
        for part in [
            "fig02: |L| grows",
            "page    reproduced",
            "run     differs: no: it shrinks",
            "by 3 | packets",
            "braid-sim reproduce paper --only second --check docs/paper.md",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
    }

    #[test]
    fn a_moved_measurement_is_reported_and_no_difference() {
        let moved = markdown(&study()).replacen("by 3", "by 4", 1);
        let found = Page::parse(&moved).unwrap().compare(&study(), true);
        assert_eq!((found.verdicts.len(), found.moved.len()), (0, 1), "{found:?}");
    }

    #[test]
    fn a_claim_that_only_one_side_has_is_a_difference() {
        let mut part = study();
        part.claims.truncate(1);
        let whole = Page::parse(&markdown(&study())).unwrap();
        assert_eq!(whole.compare(&part, false).verdicts.len(), 0);
        assert_eq!(whole.compare(&part, true).verdicts.len(), 2);
        let page = Page::parse(&markdown(&part)).unwrap();
        assert_eq!(page.compare(&study(), false).verdicts.len(), 2);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let page = markdown(&study());
        for (from, to, wanted) in [
            ("| 5 to 7 |", "| 7 to 5 |", "`A to B`"),
            ("| 5 to 7 |", "| five |", "`A to B`"),
            (ORIGIN_HEAD, "", "name its seeds"),
            (CLAIMS_HEAD, "", "table of claims"),
        ] {
            let refused = Page::parse(&page.replace(from, to)).unwrap_err();
            assert!(refused.contains(wanted), "{from}: {refused}");
        }
        let error = Page::read(Path::new("/nowhere/page.md")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/page.md"), "{error}");
    }
}
