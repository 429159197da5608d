//! The calls that a source makes by name.

use std::{collections::HashSet, fmt};

use swc_common::{GLOBALS, Globals, Mark};
use swc_ecma_ast::{
    CallExpr, Callee, Expr, Id, ImportDecl, ImportSpecifier, Lit, MemberProp, Module, ModuleExportName, Program,
};
use swc_ecma_transforms_base::resolver;
use swc_ecma_visit::{Visit, VisitWith};

use crate::{
    language::Language,
    place::{Place, offset},
    rules::CATENA,
};

/// A `call(...)` in the source, or a `replies(...)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCall {
    /// What it calls.
    pub target: Target,
    /// Where it stands: the line, from 1.
    pub line: u32,
    /// Where it stands: the column, from 1, in characters.
    pub column: u32,
}

/// What a call calls, so far as the source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A literal `service/function`, as written.
    Literal(String),
    /// Known only when the chain runs.
    Computed,
}

impl fmt::Display for Target {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(target) => to.write_str(target),
            Self::Computed => to.write_str("(computed)"),
        }
    }
}

/// What calls a service.
const CALLING: [&str; 2] = ["call", "replies"];

/// Finds every use of the imported `call` and `replies` (under whatever names) as functions, in the order of the text. One
/// that was put into another variable first is not followed.
pub(crate) fn find(source: &str, module: Module, language: Language) -> Vec<FoundCall> {
    let mut program = Program::Module(module);
    // The resolver tells a `call` that was imported from a parameter that happens to have its name.
    GLOBALS.set(&Globals::new(), || {
        program.mutate(&mut resolver(Mark::new(), Mark::new(), language == Language::TypeScript));
        let mut imported = Imported::default();
        program.visit_with(&mut imported);
        let mut calls = Calls { imported, found: Vec::new() };
        program.visit_with(&mut calls);
        calls.found.sort_by_key(|(position, _)| *position);
        let places = Place::of_each(source, calls.found.iter().map(|(position, _)| *position)).collect::<Vec<_>>();
        let found = calls.found.into_iter().zip(places);
        found.map(|((_, target), Place { line, column })| FoundCall { target, line, column }).collect()
    })
}

/// The names under which the module has `call` and `replies`.
#[derive(Default)]
struct Imported {
    /// `import { call }`, `import { call as x }`
    call: HashSet<Id>,
    /// `import * as x`
    everything: HashSet<Id>,
}

impl Visit for Imported {
    fn visit_import_decl(&mut self, import: &ImportDecl) {
        if import.src.value.as_str() != Some(CATENA) {
            return;
        }
        for one in &import.specifiers {
            match one {
                ImportSpecifier::Named(named) => {
                    let is_call = match &named.imported {
                        None => CALLING.contains(&&*named.local.sym),
                        Some(ModuleExportName::Ident(name)) => CALLING.contains(&&*name.sym),
                        Some(ModuleExportName::Str(name)) => {
                            name.value.as_str().is_some_and(|name| CALLING.contains(&name))
                        }
                    };
                    if is_call {
                        self.call.insert(named.local.to_id());
                    }
                }
                ImportSpecifier::Namespace(all) => {
                    self.everything.insert(all.local.to_id());
                }
                ImportSpecifier::Default(_) => {}
            }
        }
    }
}

struct Calls {
    imported: Imported,
    found: Vec<(usize, Target)>,
}

impl Calls {
    fn is_call(&self, callee: &Expr) -> bool {
        match callee {
            Expr::Ident(name) => self.imported.call.contains(&name.to_id()),
            Expr::Paren(inner) => self.is_call(&inner.expr),
            Expr::Member(member) => {
                let of_catena =
                    matches!(&*member.obj, Expr::Ident(name) if self.imported.everything.contains(&name.to_id()));
                of_catena && matches!(&member.prop, MemberProp::Ident(name) if CALLING.contains(&&*name.sym))
            }
            _ => false,
        }
    }
}

impl Visit for Calls {
    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee
            && self.is_call(callee)
        {
            let target = match call.args.first() {
                Some(first) if first.spread.is_none() => literal(&first.expr),
                _ => None,
            };
            self.found.push((offset(call.span.lo), target.map_or(Target::Computed, Target::Literal)));
        }
        call.visit_children_with(self);
    }
}

/// The text of an expression that is one string, and nothing else.
fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(Lit::Str(text)) => text.value.as_str().map(str::to_owned),
        Expr::Tpl(template) => match (&template.exprs[..], &template.quasis[..]) {
            ([], [only]) => only.cooked.as_ref().and_then(|text| text.as_str()).map(str::to_owned),
            _ => None,
        },
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::TsAs(inner) => literal(&inner.expr),
        Expr::TsConstAssertion(inner) => literal(&inner.expr),
        Expr::TsSatisfies(inner) => literal(&inner.expr),
        Expr::TsNonNull(inner) => literal(&inner.expr),
        _ => None,
    }
}
