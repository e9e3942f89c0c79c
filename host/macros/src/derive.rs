//! The implementations that the derives generate.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Ident, Result, Type};

/// A structure whose layout is that of C, or of its only field.
struct Structure {
    name: Ident,
    fields: Vec<Type>,
    is_transparent: bool,
}

/// Generates the implementation of `Element`. Its checks run in the compiler: each field is an
/// element, and no byte lies between or behind the fields.
///
/// # Errors
/// An input that is no structure with a fixed layout.
pub(crate) fn element(input: TokenStream) -> Result<TokenStream> {
    let Structure { name, fields, .. } = Structure::read(input, "Element")?;
    let padding = format!(
        "`{name}` has padding, whose bytes are undefined: add fields in place of the padding, or \
         put larger fields first"
    );
    Ok(quote! {
        // The type of a field may contain `Self`.
        impl #name {
            const __LONGSHORE_ELEMENT: () = {
                const fn is_element<T: ::longshore::Element>() -> usize {
                    ::core::mem::size_of::<T>()
                }
                let bytes = 0 #(+ is_element::<#fields>())*;
                ::core::assert!(::core::mem::size_of::<#name>() == bytes, #padding);
            };
        }
        const _: () = #name::__LONGSHORE_ELEMENT;

        // SAFETY: the layout is that of C, so each byte belongs to one of the fields, as their
        // sizes add up to that of the structure. Each field is an element.
        unsafe impl ::longshore::Element for #name {}
    })
}

/// Generates the implementation of `Argument`: a structure by value, or the only field of a
/// transparent one.
///
/// # Errors
/// As for [`element`].
pub(crate) fn argument(input: TokenStream) -> Result<TokenStream> {
    let Structure { name, fields, is_transparent } = Structure::read(input, "Argument")?;
    let kind = match &fields[..] {
        [field] if is_transparent => quote!(<#field as ::longshore::Argument>::KIND),
        _ => quote!(::core::option::Option::Some(::longshore::ArgumentKind::Structure)),
    };
    Ok(quote! {
        impl ::longshore::Argument for #name {
            type Stored = #name;
            const KIND: ::core::option::Option<::longshore::ArgumentKind> = #kind;

            #[inline]
            fn stored(&self) -> #name {
                *self
            }
        }
    })
}

impl Structure {
    fn read(input: TokenStream, derived: &str) -> Result<Structure> {
        let input: DeriveInput = syn::parse2(input)?;
        let name = input.ident;
        let Data::Struct(data) = input.data else {
            let problem = format!(
                "`{derived}` is derived for structures alone: `{name}` is an enumeration or a union"
            );
            return Err(Error::new(name.span(), problem));
        };
        if !input.generics.params.is_empty() {
            let problem = format!(
                "`{derived}` cannot be derived for `{name}`, which has generic parameters: its \
                 layout would depend on them"
            );
            return Err(Error::new_spanned(input.generics, problem));
        }
        let (mut is_c, mut is_transparent, mut is_packed) = (false, false, false);
        for attribute in input.attrs.iter().filter(|one| one.path().is_ident("repr")) {
            attribute.parse_nested_meta(|meta| {
                is_c |= meta.path.is_ident("C");
                is_transparent |= meta.path.is_ident("transparent");
                is_packed |= meta.path.is_ident("packed");
                if meta.input.peek(syn::token::Paren) {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    content.parse::<syn::LitInt>()?;
                }
                Ok(())
            })?;
        }
        if !is_c && !is_transparent || is_packed {
            let problem = format!(
                "`{derived}` requires `#[repr(C)]` or `#[repr(transparent)]` on `{name}`, without \
                 `packed`: kernels expect the layout of C"
            );
            return Err(Error::new(name.span(), problem));
        }
        let fields = data.fields.into_iter().map(|field| field.ty).collect();
        Ok(Structure { name, fields, is_transparent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: TokenStream) -> String {
        let element = element(input.clone()).unwrap_err().to_string();
        let argument = argument(input).unwrap_err().to_string();
        assert_eq!(element.replace("`Element`", "`Argument`"), argument);
        argument
    }

    #[test]
    fn inputs_without_a_fixed_layout_are_refused_with_the_remedy() {
        let message = refused(quote!(
            struct Range {
                first: u32,
                end: u32,
            }
        ));
        assert!(message.contains("requires `#[repr(C)]`"), "{message}");
        let message = refused(quote!(
            #[repr(C, packed(2))]
            struct Range {
                first: u8,
                end: u32,
            }
        ));
        assert!(message.contains("without `packed`"), "{message}");
        let message = refused(quote!(
            #[repr(C)]
            struct Range<T> {
                first: T,
            }
        ));
        assert!(message.contains("generic parameters"), "{message}");
        for input in [
            quote!(
                #[repr(u32)]
                enum Kind {
                    In,
                    Out,
                }
            ),
            quote!(union One { one: u8 }),
        ] {
            assert!(refused(input).contains("is derived for structures"));
        }
    }

    #[test]
    fn layouts_of_c_and_of_one_field_are_taken() {
        for input in [
            quote!(
                #[repr(C)]
                struct Range {
                    first: u32,
                    end: u32,
                }
            ),
            quote!(
                #[repr(C, align(16))]
                struct Quad([f32; 4]);
            ),
            quote!(
                #[repr(transparent)]
                struct Metres(f32);
            ),
        ] {
            assert!(element(input.clone()).is_ok() && argument(input).is_ok());
        }
    }

    #[test]
    fn a_transparent_structure_has_the_kind_of_its_field() {
        let kind = |input| argument(input).unwrap().to_string().replace(' ', "");
        let field = kind(quote!(
            #[repr(transparent)]
            struct Metres(f32);
        ));
        assert!(field.contains("<f32as::longshore::Argument>::KIND"), "{field}");
        let whole = kind(quote!(
            #[repr(C)]
            struct Metres(f32);
        ));
        assert!(whole.contains("ArgumentKind::Structure"), "{whole}");
    }
}
