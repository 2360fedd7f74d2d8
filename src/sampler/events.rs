//! What kernel events wake: rtnetlink, RDMA netlink MONITOR, DCB.

use super::Sampler;
use super::schedule::Subject;
use crate::observe::history::ports_of;

impl Sampler {
    /// A network device changed (an rtnetlink event).
    pub fn netdev_changed(&mut self, name: &str) {
        let now = self.clock.now();
        let subject = Subject::new("netdev", name);
        let mut known = self.schedule.contains(&subject);
        self.schedule.wake(&subject, now);
        if known {
            self.outdated.insert(Subject::new("ethtool", name));
        }
        for (device, _) in
            ports_of(&self.snapshot).filter(|(_, port)| port.netdev.as_deref() == Some(name))
        {
            known = true;
            let link = Subject::new("link", &device.key.0);
            self.schedule.wake(&link, now);
        }
        if !known {
            // A new or renamed device may belong to a port: enumerate. Strangers (veth of pods)
            // come and go all day, so only if RDMA ports without a network device exist.
            let missing = ports_of(&self.snapshot).any(|(_, port)| {
                let name = port.netdev.as_ref();
                name.is_none_or(|name| !self.snapshot.netdevs.contains_key(name))
            });
            if missing {
                self.devices_changed();
            }
        }
    }

    /// DCB settings changed: statistics may have other names now.
    pub fn dcb_changed(&mut self) {
        self.wake_sources(&["dcb"]);
        // Read at their own pace: shares of time need samples that lie well apart.
        let ethtool = self
            .readers
            .keys()
            .filter(|subject| subject.source == "ethtool");
        self.outdated.extend(ethtool.cloned());
    }

    /// RDMA devices came, went or changed: enumerate now.
    pub fn devices_changed(&mut self) {
        self.wake_sources(&["devices"]);
    }

    /// Events were lost: read everything that they could have reported.
    pub fn resync(&mut self) {
        self.wake_sources(&["devices", "link", "netdev"]);
    }

    fn wake_sources(&mut self, sources: &[&str]) {
        let now = self.clock.now();
        for subject in self.readers.keys() {
            if sources.contains(&subject.source) {
                self.schedule.wake(subject, now);
            }
        }
    }
}
