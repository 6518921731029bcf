//! Rules about the shape of code: parameters of functions, fields of structs, names of types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::Ident;
use syn::visit::{self, Visit};

use super::Breach;
use super::budgets::{Budgets, FILE, Findings, Rule};

/// Parameters of a function, without `self`.
const MAX_PARAMETERS: usize = 6;
/// Fields of a struct.
const MAX_FIELDS: usize = 14;

/// Checks one file after another and remembers the types of each crate.
pub(super) struct Shapes<'a> {
    budgets: &'a Budgets,
    unused_exceptions: Vec<&'a str>,
    types: BTreeMap<(String, String), PathBuf>,
}

impl<'a> Shapes<'a> {
    pub(super) fn new(budgets: &'a Budgets) -> Self {
        let unused_exceptions = budgets.field_exceptions.keys().map(String::as_str).collect();
        Self { budgets, unused_exceptions, types: BTreeMap::new() }
    }

    /// Checks a file of the crate in `folder`.
    pub(super) fn check(
        &mut self,
        file: &Path,
        folder: &str,
        syntax: &syn::File,
        found: &mut Findings,
    ) {
        let mut walk = ShapeVisitor { shapes: self, file, folder, found };
        walk.visit_file(syntax);
        let is_test = file.iter().any(|part| part == "tests" || part == "tests.rs");
        if file.starts_with(Path::new(folder).join("src")) && !is_test {
            walk.types(&syntax.items);
        }
    }

    /// A note for each exception that no struct needs.
    pub(super) fn finish(self) -> Vec<String> {
        let unused = self.unused_exceptions.into_iter();
        unused.map(|name| format!("{FILE}: no struct `{name}` needs its exception")).collect()
    }
}

struct ShapeVisitor<'a, 'b> {
    shapes: &'a mut Shapes<'b>,
    file: &'a Path,
    folder: &'a str,
    found: &'a mut Findings,
}

impl ShapeVisitor<'_, '_> {
    fn found(&mut self, rule: Rule, at: &Ident, text: String) {
        let breach = Breach::new(self.file, at.span().start().line, text);
        self.found.add(rule, self.folder, breach);
    }

    /// Records the types of modules. Those of tests and of function bodies are local.
    fn types(&mut self, items: &[syn::Item]) {
        for item in items {
            let name = match item {
                syn::Item::Enum(item) => &item.ident,
                syn::Item::Struct(item) => &item.ident,
                syn::Item::Trait(item) => &item.ident,
                syn::Item::Type(item) => &item.ident,
                syn::Item::Union(item) => &item.ident,
                syn::Item::Mod(module) if !is_test(&module.attrs) => {
                    if let Some((_, items)) = &module.content {
                        self.types(items);
                    }
                    continue;
                }
                _ => continue,
            };
            let key = (self.folder.to_owned(), name.to_string());
            if let Some(first) = self.shapes.types.get(&key) {
                let rule = format!("the crate has a type `{name}` in {} too", first.display());
                self.found(Rule::RepeatedTypeNames, name, rule);
            } else {
                self.shapes.types.insert(key, self.file.to_owned());
            }
        }
    }
}

impl<'ast> Visit<'ast> for ShapeVisitor<'_, '_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // The trait decides about the parameters.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_foreign_mod(&mut self, _: &'ast syn::ItemForeignMod) {}

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let typed = signature.inputs.iter().filter(|input| matches!(input, syn::FnArg::Typed(_)));
        let count = typed.count();
        // The ABI of another library decides about the parameters.
        if count > MAX_PARAMETERS && signature.abi.is_none() {
            let name = &signature.ident;
            let rule = format!("`{name}` has {count} parameters, at most {MAX_PARAMETERS}");
            self.found(Rule::Parameters, name, rule);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let (name, count) = (&item.ident, item.fields.len());
        if count > MAX_FIELDS {
            let key = format!("{}::{name}", self.folder);
            if self.shapes.budgets.field_exceptions.contains_key(&key) {
                self.shapes.unused_exceptions.retain(|unused| *unused != key);
            } else {
                let rule = format!("`{name}` has {count} fields, at most {MAX_FIELDS}: split it");
                self.found(Rule::Fields, name, rule);
            }
        }
        visit::visit_item_struct(self, item);
    }
}

/// `#[cfg(test)]`.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(exceptions: &str, text: &str) -> Vec<(usize, String)> {
        let budgets: Budgets = toml::from_str(exceptions).expect("a table");
        let (mut findings, mut shapes) = (Findings::default(), Shapes::new(&budgets));
        let syntax = syn::parse_file(text).expect("Rust");
        shapes.check(Path::new("lb/src/a.rs"), "lb", &syntax, &mut findings);
        assert_eq!(shapes.finish(), Vec::<String>::new());
        let report = findings.judge(&Budgets::default(), &["lb".into()]);
        report.breaches.into_iter().map(|breach| (breach.line, breach.rule)).collect()
    }

    #[test]
    fn functions_have_six_parameters() {
        let inputs = "a: u8, b: u8, c: u8, d: u8, e: u8, f: u8";
        assert!(found("", &format!("impl A {{ fn f(&self, {inputs}) {{}} }}")).is_empty());
        for text in [
            format!("fn f({inputs}, g: u8) {{}}"),
            format!("impl A {{ fn f(&self, {inputs}, g: u8) {{}} }}"),
            format!("trait A {{ fn f(&self, {inputs}, g: u8); }}"),
        ] {
            assert!(found("", &text)[0].1.contains("7 parameters"), "{text}");
        }
        for text in [
            format!("impl A for B {{ fn f({inputs}, g: u8) {{}} }}"),
            format!("extern \"C\" fn f({inputs}, g: u8) {{}}"),
            format!("unsafe extern \"C\" {{ fn f({inputs}, g: u8); }}"),
        ] {
            assert!(found("", &text).is_empty(), "{text}");
        }
    }

    #[test]
    fn structs_have_fourteen_fields() {
        let fields = |count| (0..count).map(|n| format!("f{n}: u8,\n")).collect::<String>();
        let text = format!("struct Big {{\n{}}}", fields(MAX_FIELDS + 1));
        assert!(found("", &text)[0].1.contains("`Big` has 15 fields"));
        assert!(found("", &format!("struct Small {{\n{}}}", fields(MAX_FIELDS))).is_empty());
        let exception = "[field-exceptions]\n\"lb::Big\" = \"a mirror\"\n";
        assert!(found(exception, &text).is_empty());
    }

    #[test]
    fn an_unused_exception_is_a_note() {
        let budgets = toml::from_str("[field-exceptions]\n\"lb::Gone\" = \"\"\n").expect("a table");
        assert!(Shapes::new(&budgets).finish()[0].contains("no struct `lb::Gone`"));
    }

    #[test]
    fn a_type_name_is_there_once() {
        let twice = found("", "struct A;\nmod b {\n    pub enum A {}\n}\n");
        assert_eq!(twice.len(), 1);
        assert_eq!(twice[0].0, 3);
        for text in [
            "struct A;\n#[cfg(test)]\nmod b { struct A; }",
            "struct A;\nfn f() { struct A; }",
            "struct A;\ntrait B { type A; }",
        ] {
            assert!(found("", text).is_empty(), "{text}");
        }
    }
}
