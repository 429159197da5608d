//! What a chain function may import, and what it must export.

use swc_common::{Span, Spanned};
use swc_ecma_ast::{
    CallExpr, Callee, Decl, DefaultDecl, ExportDefaultExpr, ExportSpecifier, Expr, ImportDecl, ImportSpecifier, Module,
    ModuleDecl, ModuleExportName, ModuleItem, NamedExport, Stmt, Str,
};
use swc_ecma_visit::{Visit, VisitWith};

use crate::{
    error::{ErrorKind, ScriptError},
    place::offset,
};

/// The one module that there is at every node.
pub(crate) const CATENA: &str = "catena";

const BUNDLE: &str = "move what you need into this file, or bundle it first, for instance with \
                      `esbuild FILE --bundle --format=esm --external:catena --outfile=bundled.js`";

/// Checks the imports, in the order of the text, then the default export.
pub(crate) fn check(name: &str, source: &str, module: &Module) -> Result<(), ScriptError> {
    let mut rules = Rules::default();
    module.visit_with(&mut rules);
    // Import declarations are found in order, but an import expression may lie before one.
    let first = rules.broken.into_iter().min_by_key(|broken| broken.span.lo).or_else(|| default_export(module));
    match first {
        None => Ok(()),
        Some(Broken { kind, span, message, help }) => {
            let error = ScriptError::of_file(kind, name, message, help);
            Err(if span.is_dummy() { error } else { error.at(source, offset(span.lo)) })
        }
    }
}

struct Broken {
    kind: ErrorKind,
    /// Dummy where there is no place to show.
    span: Span,
    message: String,
    help: String,
}

#[derive(Default)]
struct Rules {
    broken: Vec<Broken>,
}

impl Rules {
    fn import(&mut self, from: &Str, only_types_named: bool) {
        let module = from.value.to_string_lossy();
        if module == CATENA {
            return;
        }
        let help = if only_types_named {
            "only types are named here: write `import type { ... }`, which is taken away whole".to_owned()
        } else {
            advice(&module)
        };
        let message = format!("a chain function can import from \"{CATENA}\" only, and this is {module:?}");
        self.broken.push(Broken { kind: ErrorKind::Import, span: from.span, message, help });
    }
}

impl Visit for Rules {
    fn visit_import_decl(&mut self, import: &ImportDecl) {
        if !import.type_only {
            let is_type = |one: &ImportSpecifier| matches!(one, ImportSpecifier::Named(named) if named.is_type_only);
            let only_types_named = !import.specifiers.is_empty() && import.specifiers.iter().all(is_type);
            self.import(&import.src, only_types_named);
        }
    }

    fn visit_module_decl(&mut self, declaration: &ModuleDecl) {
        match declaration {
            ModuleDecl::ExportNamed(NamedExport { type_only: false, src: Some(from), .. }) => self.import(from, false),
            ModuleDecl::ExportAll(all) if !all.type_only => self.import(&all.src, false),
            _ => {}
        }
        declaration.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Import(import) = &call.callee {
            self.broken.push(Broken {
                kind: ErrorKind::DynamicImport,
                span: import.span,
                message: "a chain function cannot load modules while it runs: import() is refused".to_owned(),
                help: BUNDLE.to_owned(),
            });
        }
        call.visit_children_with(self);
    }
}

fn advice(module: &str) -> String {
    let why = if module.starts_with("node:") {
        "there is no Node.js where a chain runs: files, sockets and the like are reached by calling a service"
    } else if module.starts_with('.') || module.starts_with('/') || module.contains(':') {
        "a chain function travels alone, as one file"
    } else {
        "packages are not installed where a chain runs"
    };
    if module.starts_with("node:") { why.to_owned() } else { format!("{why}: {BUNDLE}") }
}

/// What is wrong with the default export, if anything is.
fn default_export(module: &Module) -> Option<Broken> {
    let mut first_function = None;
    for item in &module.body {
        match item {
            ModuleItem::ModuleDecl(ModuleDecl::ExportDefaultDecl(default)) => match &default.decl {
                DefaultDecl::Fn(function) if function.function.body.is_some() => return None,
                DefaultDecl::Class(class) => {
                    return Some(not_a_function(class.class.span, "a class"));
                }
                // An overload's head, or an interface: types both.
                _ => {}
            },
            ModuleItem::ModuleDecl(ModuleDecl::ExportDefaultExpr(default)) => {
                return certainly_not_a_function(default);
            }
            ModuleItem::ModuleDecl(ModuleDecl::ExportNamed(named)) if exports_default(named) => {
                return None;
            }
            ModuleItem::ModuleDecl(ModuleDecl::ExportDecl(export)) => note_function(&export.decl, &mut first_function),
            ModuleItem::Stmt(Stmt::Decl(declaration)) => note_function(declaration, &mut first_function),
            _ => {}
        }
    }
    let help = match &first_function {
        Some(_) => "put `export default` before the function that is the chain: it gets the chain's input",
        None => "write `export default async function main(input) { ... }`: it gets the chain's input",
    };
    Some(Broken {
        kind: ErrorKind::DefaultExport,
        span: first_function.unwrap_or_default(),
        message: "the source has no default export, so there is no function to start the chain with".to_owned(),
        help: help.to_owned(),
    })
}

fn note_function(declaration: &Decl, first: &mut Option<Span>) {
    if let Decl::Fn(function) = declaration
        && function.function.body.is_some()
    {
        first.get_or_insert(function.function.span);
    }
}

fn exports_default(named: &NamedExport) -> bool {
    !named.type_only
        && named.specifiers.iter().any(|one| match one {
            ExportSpecifier::Named(one) if !one.is_type_only => {
                let exported = one.exported.as_ref().unwrap_or(&one.orig);
                match exported {
                    ModuleExportName::Ident(name) => name.sym == "default",
                    ModuleExportName::Str(name) => name.value.as_str() == Some("default"),
                }
            }
            ExportSpecifier::Default(_) => true,
            _ => false,
        })
}

fn certainly_not_a_function(default: &ExportDefaultExpr) -> Option<Broken> {
    let mut value = &default.expr;
    while let Expr::Paren(inner) = &**value {
        value = &inner.expr;
    }
    let what = match &**value {
        Expr::Lit(_) | Expr::Tpl(_) => "a constant",
        Expr::Object(_) => "an object",
        Expr::Array(_) => "an array",
        Expr::Class(_) => "a class",
        _ => return None,
    };
    Some(not_a_function(value.span(), what))
}

fn not_a_function(span: Span, what: &str) -> Broken {
    Broken {
        kind: ErrorKind::DefaultExport,
        span,
        message: format!("the default export is {what}, and a chain starts with a function"),
        help: "write `export default async function main(input) { ... }`".to_owned(),
    }
}
