//! `#[derive(Columns)]` for the row types of a profile's tables: fields become columns, and doc
//! comments their descriptions.
//!
//! So the name, type and meaning of a column are written once, in the row type.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Expr, Fields, Lit, Meta, parse_macro_input};

/// Implements `mpisee_profile::rows::Columns` for a struct with named fields, each of which has a
/// doc comment.
#[proc_macro_derive(Columns)]
pub fn columns(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let wrong = |what: &str| syn::Error::new_spanned(&input.ident, what);
    let Data::Struct(row) = &input.data else { return Err(wrong("a row is a struct")) };
    let Fields::Named(fields) = &row.fields else { return Err(wrong("a column needs a name")) };
    let about = description(&input.attrs);
    let (mut columns, mut cells) = (Vec::new(), Vec::new());
    for field in &fields.named {
        let Some(ident) = &field.ident else { return Err(wrong("a column needs a name")) };
        let (name, kind, about) = (ident.to_string(), &field.ty, description(&field.attrs));
        if about.is_empty() {
            return Err(syn::Error::new_spanned(field, "a column needs a doc comment, its description"));
        }
        columns.push(quote! { crate::rows::Column::new::<#kind>(#name, #about) });
        cells.push(quote! { crate::rows::ColumnValue::cell(&self.#ident) });
    }
    let row = &input.ident;
    Ok(quote! {
        impl crate::rows::Columns for #row {
            const ABOUT: &'static str = #about;
            const COLUMNS: &'static [crate::rows::Column] = &[#(#columns),*];

            fn cells<'r>(&'r self, cells: &mut Vec<crate::rows::Cell<'r>>) {
                cells.extend([#(#cells),*]);
            }
        }
    })
}

/// The doc comment: a paragraph's lines joined by blanks, paragraphs by newlines.
fn description(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(value) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &value.value else { continue };
        let Lit::Str(line) = &literal.lit else { continue };
        let line = line.value();
        match line.trim() {
            "" => text.push('\n'),
            line => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push(' ');
                }
                text.push_str(line);
            }
        }
    }
    text
}
