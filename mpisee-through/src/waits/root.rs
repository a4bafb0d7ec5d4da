//! Waits of a root that nothing shows. The root of a broadcast or scatter waits for receivers of
//! long blocks and not for those of short ones, as the MPI likes: where a receiver came while the
//! root was in its call, the root may have waited for it, or have been busy.

use super::instance::{Hosts, Instance};

/// By member and sampled instance, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PossibleWaits {
    /// How long each may have waited as the root.
    pub waited: Vec<Vec<f64>>,
    /// How long the root may have waited for each.
    pub caused: Vec<Vec<f64>>,
}

impl PossibleWaits {
    /// The waits for roots on which all members depend, in these instances.
    pub fn from_instances<'a>(instances: impl ExactSizeIterator<Item = Instance<'a>>, hosts: &Hosts) -> Self {
        let columns = vec![vec![0.0; instances.len()]; hosts.of_member.len()];
        let mut found = PossibleWaits { waited: columns.clone(), caused: columns };
        for (at, one) in instances.enumerate() {
            let Some(root) = one.root else { continue };
            let (arrival_s, departure_s) = (one.arrivals[root], one.departures[root]);
            for (member, &start_s) in one.starts().iter().enumerate() {
                let late_s = start_s - arrival_s;
                if late_s > hosts.between_s(member, root) && start_s < departure_s {
                    let late_s = one.share(root) * late_s;
                    found.caused[member][at] = late_s;
                    found.waited[root][at] = late_s.max(found.waited[root][at]);
                }
            }
        }
        found
    }

    /// Returns whether no root may have waited.
    pub fn are_none(&self) -> bool {
        self.waited.iter().flatten().all(|&waited_s| waited_s == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_may_have_waited_for_who_came_before_it_left() {
        let instance = |arrivals, departures, root| Instance {
            arrivals,
            departures,
            starts: None,
            shares: None,
            root: Some(root),
        };
        // Member 0 comes while the root is there, and member 2 when it has left.
        let first = instance(&[1.0, 0.0, 3.0], &[2.5, 2.0, 3.5], 1);
        let second = instance(&[4.0, 4.5, 5.0], &[6.0; 3], 2);
        let found = PossibleWaits::from_instances([first, second].into_iter(), &Hosts::one(3));
        assert_eq!(found.waited, [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]);
        assert_eq!(found.caused, [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]);
        assert!(
            !found.are_none()
                && PossibleWaits::from_instances([second].into_iter(), &Hosts::one(3)).are_none()
        );
    }
}
