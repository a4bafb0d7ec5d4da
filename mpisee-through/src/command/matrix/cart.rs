//! Neighbours on a Cartesian grid of processes, for the collectives of neighbourhoods.

/// A grid whose processes are numbered row by row, as MPI does.
pub struct Cart {
    dims: Vec<u32>,
    periods: Vec<bool>,
}

impl Cart {
    /// The grid in `cart dims=4x2 periods=1x0`.
    pub fn from_topology(topology: &str) -> Option<Self> {
        let (dims, periods) = topology.strip_prefix("cart dims=")?.split_once(" periods=")?;
        let dims: Vec<u32> = dims.split('x').map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
        let periods: Vec<bool> = periods.split('x').map(|periodic| periodic == "1").collect();
        (dims.len() == periods.len() && !dims.contains(&0)).then_some(Cart { dims, periods })
    }

    /// How many processes it has.
    pub fn len(&self) -> u64 {
        self.dims.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul)
    }

    /// The numbers of the neighbours that a process sends to in a neighbourhood collective.
    pub fn neighbours(&self, number: u32) -> Vec<u32> {
        let mut neighbours = Vec::new();
        let mut below = 1;
        let mut found: Vec<[Option<u32>; 2]> = Vec::new();
        for (&extent, &periodic) in self.dims.iter().zip(&self.periods).rev() {
            let place = number / below % extent;
            let first = number - place * below;
            let at = |place: u32| first + place * below;
            let wrapped = |place: u32| periodic.then(|| at(place));
            let before = if place > 0 { Some(at(place - 1)) } else { wrapped(extent - 1) };
            let after = if place + 1 < extent { Some(at(place + 1)) } else { wrapped(0) };
            found.push([before, after]);
            below = below.saturating_mul(extent);
        }
        found.into_iter().rev().for_each(|both| neighbours.extend(both.into_iter().flatten()));
        neighbours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_wrapped_around_where_the_grid_is_periodic() {
        let grid = Cart::from_topology("cart dims=3x2 periods=1x0").unwrap();
        assert_eq!(grid.len(), 6);
        assert_eq!(grid.neighbours(0), [4, 2, 1]);
        assert_eq!(grid.neighbours(3), [1, 5, 2]);
        assert!(Cart::from_topology("graph degree=3").is_none());
        let pair = Cart::from_topology("cart dims=2 periods=1").unwrap();
        assert_eq!(pair.neighbours(0), [1, 1], "both neighbours are the same process");
    }
}
