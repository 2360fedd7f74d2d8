use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// Text, cut anywhere: lines end when they end.
    Write(String),
    Rotate,
    Pack,
    Restart,
    Look,
    LookLong,
    AgentRestarts,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => "(NCCL|NC|CL|a|\n| |t P ){1,12}".prop_map(Step::Write),
        2 => Just(Step::Rotate),
        1 => Just(Step::Pack),
        1 => Just(Step::Restart),
        4 => Just(Step::Look),
        1 => Just(Step::LookLong),
        1 => Just(Step::AgentRestarts),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However files are written, rotated, packed and restarted between polls: the wanted lines
    /// come, once each, in order.
    #[test]
    fn what_was_written_comes(
        steps in prop::collection::vec(step(), 1..40),
        open_files in prop_oneof![Just(0usize), Just(8)],
        (buffer, share) in (90usize..200, 1usize..200),
    ) {
        let mut rig = Rig::new(|options| {
            options.open_files = open_files;
            options.longest_line = 80;
            options.buffer = buffer;
            options.share = share;
            options.backlog = 300;
        });
        // Nothing was there at the first look: all of it is news.
        rig.poll();
        let (mut restart, mut stamp) = (0, 0);
        let mut rotated: Vec<String> = Vec::new();
        // Each file begins like no other, as stamps make it.
        let mut files = vec!["#0\n".to_string()];
        rig.write("0.log", "#0\n");
        for step in steps {
            let name = format!("{restart}.log");
            match step {
                Step::Write(text) => {
                    let file = files.last_mut().unwrap();
                    let tail = file.len() - file.rfind('\n').map_or(0, |at| at + 1);
                    let text = if tail + text.len() > 80 { format!("\n{text}") } else { text };
                    rig.write(&name, &text);
                    file.push_str(&text);
                }
                Step::Rotate | Step::Restart => {
                    let begin = format!("#{}\n", files.len());
                    if matches!(step, Step::Rotate) {
                        stamp += 1;
                        let aside = format!("{name}.20241114-{stamp:06}");
                        rig.rename(&name, &aside);
                        rotated.push(aside);
                    } else {
                        restart += 1;
                    }
                    rig.write(&format!("{restart}.log"), &begin);
                    files.push(begin);
                }
                Step::Pack => {
                    // All but the youngest, as the kubelet does.
                    let keep = rotated.pop();
                    for name in rotated.drain(..) {
                        rig.pack(&name);
                    }
                    rotated.extend(keep);
                }
                Step::Look => { rig.poll(); }
                Step::LookLong => { rig.settle(); }
                Step::AgentRestarts => rig.restart(),
            }
        }
        for _ in 0..4 {
            rig.settle();
        }
        let last = files.len() - 1;
        let mut want = Vec::new();
        for (at, file) in files.iter().enumerate() {
            // The last line of the current file may go on.
            let whole = if at == last { file.rfind('\n').map_or(0, |at| at + 1) } else { file.len() };
            let wanted = |line: &&str| ["NCCL", "t P "].iter().any(|word| line.contains(word));
            want.extend(file[..whole].split('\n').filter(wanted));
        }
        prop_assert_eq!(rig.lines(), want);
        prop_assert_eq!(&rig.came.lost, &[0u64; 0]);
    }
}
