//! What events wake: rtnetlink, RDMA netlink MONITOR, DCB.

use super::Sampler;
use super::schedule::Subject;
use crate::observe::history::ports_of;

impl Sampler {
    /// A network device changed (an rtnetlink event).
    pub fn netdev_changed(&mut self, name: &str) {
        let now = self.clock.now();
        let subject = Subject::Netdev(name.to_string());
        let mut known = self.schedule.contains(&subject);
        self.schedule.wake(&subject, now);
        if known {
            self.outdated.insert(Subject::Ethtool(name.to_string()));
        }
        let owners: Vec<String> = ports_of(&self.snapshot)
            .filter(|(_, port)| port.netdev.as_deref() == Some(name))
            .map(|(device, _)| device.key.0.clone())
            .collect();
        for owner in owners {
            known = true;
            self.schedule.wake(&Subject::Link(owner.clone()), now);
        }
        if !known {
            // A new or renamed device may belong to a port: enumerate. Strangers (veth of pods)
            // come and go all day, so only if RDMA ports without a network device exist.
            let missing = ports_of(&self.snapshot).any(|(_, port)| {
                port.netdev
                    .as_ref()
                    .is_none_or(|name| !self.snapshot.netdevs.contains_key(name))
            });
            if missing {
                self.schedule.wake(&Subject::Devices, now);
            }
        }
    }

    /// DCB settings changed: statistics may have other names now.
    pub fn dcb_changed(&mut self) {
        let now = self.clock.now();
        for subject in self.readers.keys() {
            match subject {
                Subject::Dcb(_) => self.schedule.wake(subject, now),
                // Read at their own pace: shares of time need samples that lie well apart.
                Subject::Ethtool(_) => {
                    self.outdated.insert(subject.clone());
                }
                _ => {}
            }
        }
    }

    /// RDMA devices came, went or changed: enumerate now.
    pub fn devices_changed(&mut self) {
        let now = self.clock.now();
        self.schedule.wake(&Subject::Devices, now);
    }

    /// Events were lost: read everything that events would have told of.
    pub fn resync(&mut self) {
        let now = self.clock.now();
        let subjects: Vec<Subject> = self.readers.keys().cloned().collect();
        for subject in subjects {
            if matches!(
                subject,
                Subject::Devices | Subject::Link(_) | Subject::Netdev(_)
            ) {
                self.schedule.wake(&subject, now);
            }
        }
    }
}
