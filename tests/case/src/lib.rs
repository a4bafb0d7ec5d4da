//! `#[case]`: registers a function as a case of the end-to-end tests.

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, ItemFn, Path, Token, parse_macro_input};

/// Registers a case, which `mpisee_tests::harness` runs.
///
/// `fn name(mpi: &Mpi)` runs once for each MPI, as `name::openmpi-4.1`. `fn name()` runs once.
/// `#[case(only = predicate)]` selects the MPIs: `fn predicate(mpi: &Mpi) -> bool`.
#[proc_macro_attribute]
pub fn case(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let selection = parse_macro_input!(arguments as Selection);
    let function = parse_macro_input!(function as ItemFn);
    let name = &function.sig.ident;
    let per_mpi = !function.sig.inputs.is_empty();
    let body = match (&selection.predicate, per_mpi) {
        (Some(predicate), true) => quote! { PerMpi { run: #name, is_for: #predicate } },
        (None, true) => quote! { PerMpi { run: #name, is_for: |_| true } },
        (None, false) => quote! { Once(#name) },
        (Some(predicate), false) => {
            let error = syn::Error::new_spanned(predicate, "only a case with an MPI can select MPIs");
            return error.to_compile_error().into();
        }
    };
    quote! {
        #function
        ::mpisee_tests::harness::inventory::submit! {
            ::mpisee_tests::harness::Case {
                module: module_path!(),
                name: stringify!(#name),
                body: ::mpisee_tests::harness::Body::#body,
            }
        }
    }
    .into()
}

/// The arguments of the attribute.
struct Selection {
    predicate: Option<Path>,
}

impl Parse for Selection {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if input.is_empty() {
            return Ok(Selection { predicate: None });
        }
        let keyword: Ident = input.parse()?;
        if keyword != "only" {
            return Err(syn::Error::new_spanned(keyword, "expected `only = predicate`"));
        }
        input.parse::<Token![=]>()?;
        Ok(Selection { predicate: Some(input.parse()?) })
    }
}
