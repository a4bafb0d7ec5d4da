//! Characters that shade a cell by its amount, for terminals.

/// From nothing to the largest, a quarter each.
pub const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The shade of an amount beside the largest.
pub fn shade(amount: u64, most: u64) -> usize {
    (u128::from(amount) * 4).div_ceil(u128::from(most.max(1))) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_more_is_a_shade_more() {
        let shades: Vec<usize> = [0, 1, 25, 26, 50, 51, 75, 76, 100].map(|amount| shade(amount, 100)).into();
        assert_eq!(shades, [0, 1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(shade(u64::MAX, u64::MAX), 4);
    }
}
