//! The options `--groups` and `--items`, and the grid of a launch.

use longshore::Grid;

const EXPECTED: &str = "expected X, X,Y or X,Y,Z, each a number from 1 to 4294967295";

/// Parses "X", "X,Y" or "X,Y,Z".
pub(super) fn parse(text: &str) -> Result<[u32; 3], String> {
    let mut dimensions = [1; 3];
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > dimensions.len() {
        return Err(format!("{} dimensions are given; {EXPECTED}", parts.len()));
    }
    for (dimension, part) in dimensions.iter_mut().zip(parts) {
        let number = part.parse().ok().filter(|number| *number != 0);
        *dimension = number.ok_or_else(|| format!("'{part}' is not a valid size; {EXPECTED}"))?;
    }
    Ok(dimensions)
}

/// Creates the grid of a launch.
pub(super) fn build(groups: [u32; 3], items: [u32; 3], shared: u64, cooperative: bool) -> Grid {
    let grid = Grid::new(groups, items).with_shared_bytes(shared);
    if cooperative { grid.with_cooperative(true) } else { grid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_that_are_left_out_are_1() {
        assert_eq!(parse("7"), Ok([7, 1, 1]));
        assert_eq!(parse("7, 8"), Ok([7, 8, 1]));
        assert_eq!(parse("7,8,9"), Ok([7, 8, 9]));
    }

    #[test]
    fn bad_dimensions_are_refused_with_the_form() {
        for text in ["", "0", "1,0", "1,,1", "x", "-1", "1,2,3,4", "4294967296", "1x1"] {
            assert!(parse(text).unwrap_err().contains(EXPECTED), "{text}");
        }
    }
}
