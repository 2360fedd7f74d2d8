//! The play of `selvage demo`: what goes wrong on an 8-rail node within a minute and a half, as data.

use super::cast_jobs;
use super::event::Event;
use super::nccl::Gang;
use super::pod::PodSpec;
use super::spec::ModuleSpec;
use std::time::Duration;

/// When, what, and what to tell of it (nothing where a line above has told already).
pub type Scene = (Duration, Event, &'static str);

/// Name of the preset that [`play()`] is written for.
pub const PLAY_PRESET: &str = "h100_roce";

/// How long one performance takes.
pub const PLAY_LENGTH: Duration = Duration::from_secs(96);

/// The GPU that falls off the bus, beside the rail `mlx5_4`.
const GPU: &str = "0000:9d:00";

/// Share of the links' rate that the pretended job uses, in percent.
const LOAD: u64 = 70;

struct Script(Vec<Scene>);

impl Script {
    fn at(&mut self, millis: u64, event: Event, say: &'static str) {
        self.0.push((Duration::from_millis(millis), event, say));
    }

    fn kmsg(&mut self, millis: u64, text: String, say: &'static str) {
        let event = Event::Kmsg {
            priority: 3,
            micros: 0,
            text,
            device: None,
        };
        self.at(millis, event, say);
    }
}

/// The play, in order of time. It ends as it began, so that it can be played again. Played `speed`
/// times as fast, a second of traffic or of pauses is that much shorter.
pub fn play(speed: f64) -> Vec<Scene> {
    let mut script = Script(Vec::new());
    for second in 0..PLAY_LENGTH.as_secs() {
        let traffic = Event::Traffic {
            millis: (1000.0 / speed) as u64,
            percent: LOAD,
        };
        script.at(second * 1000, traffic, "");
    }
    script.at(
        0,
        Event::All(Vec::new()),
        "A job runs over eight rails; all is well.",
    );
    flaps(&mut script);
    rate(&mut script);
    storm(&mut script, speed);
    peermem(&mut script);
    jobs(&mut script);
    down(&mut script);
    gpu(&mut script);
    let mut scenes = script.0;
    scenes.sort_by_key(|(at, _, _)| *at);
    scenes
}

fn link(device: &str, up: bool) -> Event {
    Event::Link {
        device: device.into(),
        port: 1,
        up,
    }
}

fn flaps(script: &mut Script) {
    for n in 0..3u64 {
        let say = if n == 0 {
            "The cable of mlx5_3 is loose: its link falls and is back within 200 ms, three times."
        } else {
            ""
        };
        script.at(8_000 + n * 1500, link("mlx5_3", false), say);
        script.at(8_200 + n * 1500, link("mlx5_3", true), "");
    }
}

fn rate(script: &mut Script) {
    let rate = |rate: &str, speed| Event::Rate {
        device: "mlx5_5".into(),
        port: 1,
        rate: rate.into(),
        speed,
    };
    script.at(
        24_000,
        rate("200 Gb/sec (2X NDR)", 200_000),
        "Two lanes of mlx5_5 go dark: the link trains again at half its rate.",
    );
    script.at(
        34_000,
        rate("400 Gb/sec (4X NDR)", 400_000),
        "The transceiver is seated anew; mlx5_5 is back at 400 Gb/s.",
    );
}

fn storm(script: &mut Script, speed: f64) {
    // Often, as a NIC counts all the time: a sample must not fall between two steps.
    const STEPS_A_SECOND: u64 = 10;
    let step = speed * STEPS_A_SECOND as f64;
    for at in 0..12 * STEPS_A_SECOND {
        let say = if at == 0 {
            "The switch pauses priority 3 of mlx5_1 for nine tenths of the time: a PFC storm."
        } else {
            ""
        };
        let add = |name: &str, add| Event::Ethtool {
            netdev: "enp64s0np0".into(),
            name: name.into(),
            add,
        };
        let paused = Event::All(vec![
            add("rx_prio3_pause", (11_000.0 / step) as u64),
            add("rx_prio3_pause_duration", (900_000.0 / step) as u64),
            add("rx_prio3_pause_transition", (5_500.0 / step) as u64),
        ]);
        script.at(38_000 + at * 1000 / STEPS_A_SECOND, paused, say);
    }
    script.at(
        50_000,
        Event::All(Vec::new()),
        "The slow receiver behind it is gone; the pauses end.",
    );
}

fn peermem(script: &mut Script) {
    script.at(
        56_000,
        Event::All(vec![
            Event::UnloadModule("nvidia_peermem".into()),
            Event::MemoryPeers(Some(Vec::new())),
        ]),
        "Somebody restarts the RDMA stack; nvidia_peermem does not come back.",
    );
    let module = ModuleSpec {
        name: "nvidia_peermem".into(),
        version: Some("550.90.07".into()),
        taint: "POE".into(),
    };
    script.at(
        64_000,
        Event::All(vec![
            Event::MemoryPeers(Some(vec!["nv_mem".into()])),
            Event::LoadModule(module),
        ]),
        "modprobe nvidia_peermem.",
    );
}

/// A job that does well all the time, and one that begins without what it needs.
fn jobs(script: &mut Script) {
    let [well, short, mended] = cast_jobs::of_the_play();
    let mut run = |(pod, gang): (PodSpec, Gang), from: u64, to: u64, say: [&'static str; 2]| {
        for (after, event) in gang.lines(&pod) {
            let millis = u64::try_from(after.as_millis()).unwrap_or(0);
            script.at(from + 200 + millis, event, "");
        }
        script.at(to, Event::PodGoes(pod.uid.clone()), say[1]);
        script.at(from, Event::PodComes(Box::new(pod)), say[0]);
    };
    run(well, 500, 95_000, ["", ""]);
    run(
        short,
        58_000,
        69_000,
        [
            "A job starts whose pods asked for no RDMA device: its NCCL falls back to TCP and says so nowhere but in its log.",
            "",
        ],
    );
    run(
        mended,
        70_000,
        94_000,
        [
            "The job is started again, now with an RDMA device: RoCE, with GPUDirect RDMA.",
            "",
        ],
    );
}

fn down(script: &mut Script) {
    script.at(
        67_000,
        link("mlx5_7", false),
        "The switch port of mlx5_7 is shut.",
    );
    script.at(74_000, link("mlx5_7", true), "And opened again.");
}

fn gpu(script: &mut Script) {
    let dead = |dead| Event::ConfigDead {
        pci: crate::units::Bdf {
            domain: 0,
            bus: 0x9d,
            device: 0,
            function: 0,
        },
        dead,
    };
    script.at(
        79_000,
        dead(true),
        "A GPU falls off the bus: Xid 79, and then the driver's own advice, Xid 154.",
    );
    script.kmsg(
        79_000,
        format!("NVRM: Xid (PCI:{GPU}): 79, GPU has fallen off the bus."),
        "",
    );
    script.kmsg(
        80_000,
        format!(
            "NVRM: Xid (PCI:{GPU}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
        ),
        "",
    );
    script.at(
        88_000,
        dead(false),
        "The GPU has been reset and answers; the driver takes its advice back.",
    );
    script.kmsg(
        88_100,
        format!(
            "NVRM: Xid (PCI:{GPU}): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
        ),
        "",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Node, preset};

    #[test]
    fn the_play_fits_its_node_and_leaves_it_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let spec = preset(PLAY_PRESET).unwrap();
        let mut node = Node::write(spec.clone(), dir.path()).unwrap();
        let mut before = Duration::ZERO;
        for (at, event, say) in play(1.0) {
            assert!(at >= before && at < PLAY_LENGTH, "{say}");
            before = at;
            if !matches!(event, Event::Traffic { .. }) {
                node.apply(&event).unwrap();
            }
        }
        let end = node.spec();
        for (was, is) in spec.rdma.iter().zip(&end.rdma) {
            let (was, is) = (&was.ports[0], &is.ports[0]);
            assert_eq!((was.state, &was.rate), (is.state, &is.rate));
        }
        assert_eq!(end.pci, spec.pci);
        assert_eq!(end.memory_peers, spec.memory_peers);
        assert_eq!(end.pods, spec.pods);
        let names = |spec: &crate::simulate::NodeSpec| {
            let mut names: Vec<_> = spec.modules.iter().map(|m| m.name.clone()).collect();
            names.sort();
            names
        };
        assert_eq!(names(end), names(&spec));
        let gpu: crate::units::Bdf = format!("{GPU}.0").parse().unwrap();
        assert!(spec.gpus.iter().any(|known| known.bdf == gpu));
    }
}
