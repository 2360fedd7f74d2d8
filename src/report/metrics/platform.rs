//! Series of the machine's shape, and of what the Node promises.

use super::Exposition;
use crate::report::catalogue::{self as cat, Family};
use crate::report::{Report, Resource};

pub(super) fn families(exposition: &mut Exposition, report: &Report) {
    let profile = &report.profile;
    // Before the first enumeration the profile is not known.
    let looked = report.snapshot.devices.is_some() || profile.shape.is_some();
    let info = looked.then(|| ([profile.name(), profile.source.as_str()], 1.0));
    exposition.add(&cat::PROFILE_INFO, info);
    let mut each = |family: &Family, value: fn(&Resource) -> Option<u64>| {
        let values = report.resources.iter();
        exposition.add(
            family,
            values.filter_map(|of| Some(([of.name.as_str()], value(of)? as f64))),
        );
    };
    each(&cat::RESOURCE_ALLOCATABLE, |of| of.allocatable);
    each(&cat::RESOURCE_CAPACITY, |of| of.capacity);
    each(&cat::RESOURCE_DEVICES, |of| of.devices);
}
