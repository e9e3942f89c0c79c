//! Lists from another process, read in bounded memory.

use super::limits::ARGUMENTS;

/// Reads a list and keeps at most its first `MOST` + 1 elements.
///
/// # Errors
/// Errors of the format.
pub fn list<'de, D, T, const MOST: usize>(from: D) -> std::result::Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    struct Elements<T, const MOST: usize>(std::marker::PhantomData<T>);

    impl<'de, T: serde::Deserialize<'de>, const MOST: usize> serde::de::Visitor<'de>
        for Elements<T, MOST>
    {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut from: A,
        ) -> std::result::Result<Vec<T>, A::Error> {
            let mut kept = Vec::new();
            while let Some(element) = from.next_element()? {
                if kept.len() <= MOST {
                    kept.push(element);
                }
            }
            Ok(kept)
        }
    }

    from.deserialize_seq(Elements::<T, MOST>(std::marker::PhantomData))
}

/// Reads the sizes of a kernel's arguments, with the limit of [`list`].
///
/// # Errors
/// Errors of the format.
pub(crate) fn sizes<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<Vec<u32>>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Sizes(#[serde(deserialize_with = "list::<_, _, ARGUMENTS>")] Vec<u32>);

    let sizes: Option<Sizes> = serde::Deserialize::deserialize(from)?;
    Ok(sizes.map(|Sizes(sizes)| sizes))
}
