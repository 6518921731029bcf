//! The modules of a crate and the module that each import leads to.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use super::shape::is_test;

/// The files of the tree, parsed.
pub(super) type Sources = HashMap<PathBuf, syn::File>;

/// Re-exports that lead to one another end the search.
const MAX_REEXPORTS: usize = 16;

/// A module of a crate.
pub(super) struct Module {
    pub(super) file: PathBuf,
    pub(super) parent: Option<usize>,
    /// Modules inside, in the order of their declarations.
    pub(super) children: Vec<(String, usize)>,
    pub(super) imports: Vec<Import>,
    items: HashSet<String>,
}

/// One name that a module imports.
pub(super) struct Import {
    pub(super) line: usize,
    /// The import gives the name on to other modules.
    pub(super) is_reexport: bool,
    /// The import stands in a function, which alone sees it.
    is_local: bool,
    path: Vec<String>,
    /// The name inside the module; none for all names of the path.
    name: Option<String>,
}

/// All modules of a library or program; the first is its root.
pub(super) struct Modules(Vec<Module>);

impl Modules {
    /// Reads the modules below the root file `root`, without those of tests.
    pub(super) fn read(sources: &Sources, root: &Path) -> Self {
        let mut modules = Self(Vec::new());
        if let Some(file) = sources.get(root) {
            let folder = root.parent().unwrap_or(Path::new(""));
            modules.add(sources, None, root, folder, &file.items);
        }
        modules
    }

    pub(super) fn all(&self) -> &[Module] {
        &self.0
    }

    fn add(
        &mut self,
        sources: &Sources,
        parent: Option<usize>,
        file: &Path,
        folder: &Path,
        items: &[Item],
    ) -> usize {
        let own = self.0.len();
        let imports = Imports::of(items);
        self.0.push(Module {
            file: file.to_owned(),
            parent,
            children: Vec::new(),
            imports,
            items: items.iter().filter_map(name).collect(),
        });
        for item in items {
            let Item::Mod(module) = item else { continue };
            if is_test(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let inside = folder.join(&name);
            let child = if let Some((_, items)) = &module.content {
                self.add(sources, Some(own), file, &inside, items)
            } else {
                let files = [inside.with_extension("rs"), inside.join("mod.rs")];
                let Some(file) = files.iter().find(|file| sources.contains_key(*file)) else {
                    continue;
                };
                self.add(sources, Some(own), file, &inside, &sources[file].items)
            };
            self.0[own].children.push((name, child));
        }
        own
    }

    /// The module that defines the item of an import; none for another crate's.
    pub(super) fn target(&self, from: usize, import: &Import) -> Option<usize> {
        self.resolve(from, &import.path, MAX_REEXPORTS)
    }

    /// The module that the path of an import names, whether it defines the item or re-exports it.
    pub(super) fn named(&self, from: usize, import: &Import) -> Option<usize> {
        self.resolve(from, &import.path, 0)
    }

    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let mut at = from;
        let mut rest = path;
        let mut is_inside = false;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.0[at].parent?,
                _ => break,
            }
            (rest, is_inside) = (others, true);
        }
        for name in rest {
            match self.step(at, name, depth) {
                Some(Resolved::Into(module)) => at = module,
                Some(Resolved::End(module)) => return Some(module),
                // A macro may define the name.
                None if is_inside => return Some(at),
                None => return None,
            }
            is_inside = true;
        }
        Some(at)
    }

    /// Follows one name in the module `at`.
    fn step(&self, at: usize, name: &str, depth: usize) -> Option<Resolved> {
        let module = &self.0[at];
        if let Some((_, child)) = module.children.iter().find(|(child, _)| child == name) {
            return Some(Resolved::Into(*child));
        }
        if module.items.contains(name) {
            return Some(Resolved::End(at));
        }
        let depth = depth.checked_sub(1)?;
        let mut shared = module.imports.iter().filter(|import| !import.is_local);
        if let Some(import) = shared.clone().find(|import| import.name.as_deref() == Some(name)) {
            let path = &import.path;
            let leads_to_itself = path.len() == 1 && path[0] == name;
            if leads_to_itself {
                return None;
            }
            let target = self.resolve(at, path, depth)?;
            return Some(match self.is_module(target, path.last()) {
                true => Resolved::Into(target),
                false => Resolved::End(target),
            });
        }
        shared.find_map(|import| {
            let all = import.name.is_none().then(|| self.resolve(at, &import.path, depth))??;
            (all != at).then(|| self.step(all, name, depth))?
        })
    }

    /// Whether `name` is the name of the module and not of an item in it.
    fn is_module(&self, module: usize, name: Option<&String>) -> bool {
        let parent = self.0[module].parent.map(|parent| &self.0[parent].children);
        let own = parent.and_then(|all| all.iter().find(|(_, child)| *child == module));
        own.is_some_and(|(own, _)| Some(own) == name)
    }
}

enum Resolved {
    Into(usize),
    End(usize),
}

/// The name of an item that other modules can import.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Collects the imports of one module, without its inner modules and its tests.
#[derive(Default)]
struct Imports {
    found: Vec<Import>,
    is_local: bool,
}

impl Imports {
    fn of(items: &[Item]) -> Vec<Import> {
        let mut imports = Self::default();
        items.iter().for_each(|item| imports.visit_item(item));
        imports.found
    }

    fn tree(&mut self, path: &mut Vec<String>, tree: &UseTree, item: &syn::ItemUse) {
        let name = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.tree(path, &inner.tree, item);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(path, tree, item));
                return;
            }
            UseTree::Name(inner) => Some((inner.ident.to_string(), inner.ident.to_string())),
            UseTree::Rename(inner) => Some((inner.ident.to_string(), inner.rename.to_string())),
            UseTree::Glob(_) => None,
        };
        let mut path = path.clone();
        let name = name.map(|(imported, name)| match imported.as_str() {
            "self" => path.last().cloned().unwrap_or(name),
            _ => {
                path.push(imported);
                name
            }
        });
        self.found.push(Import {
            line: item.use_token.span.start().line,
            is_reexport: !matches!(item.vis, syn::Visibility::Inherited),
            is_local: self.is_local,
            path,
            name,
        });
    }
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) && item.leading_colon.is_none() {
            self.tree(&mut Vec::new(), &item.tree, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let outer = std::mem::replace(&mut self.is_local, true);
        visit::visit_block(self, block);
        self.is_local = outer;
    }
}
