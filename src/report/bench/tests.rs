use super::*;
use crate::check::bench::no_output;

fn bench(verdicts: &[(Grade, Option<f64>)]) -> Bench {
    let runs = verdicts.iter().map(|(verdict, ratio)| {
        let mut run = no_output();
        run.verdict = *verdict;
        run.ratio = *ratio;
        run
    });
    let input = BenchInput {
        name: "x\u{1b}]0;y".into(),
        runs: runs.collect(),
        nccl: None,
    };
    Bench::new(None, vec![input])
}

#[test]
fn the_worst_verdict_counts() {
    use Grade as V;
    for (verdicts, want) in [
        (&[V::LineRate][..], V::LineRate),
        (&[V::LineRate, V::Unknown], V::Unknown),
        (&[V::Unknown, V::Below], V::Below),
        (&[V::Tcp, V::Below], V::Tcp),
        (&[V::WrongResults, V::Tcp], V::WrongResults),
        (&[], V::Unknown),
    ] {
        let verdicts: Vec<_> = verdicts.iter().map(|verdict| (*verdict, None)).collect();
        assert_eq!(bench(&verdicts).verdict, want);
    }
}

#[test]
fn of_equal_verdicts_the_lower_number_is_exported() {
    let below = |ratio| (Grade::Below, Some(ratio));
    for verdicts in [
        [below(0.5), below(0.3), (Grade::LineRate, Some(0.1))],
        [(Grade::LineRate, Some(0.1)), below(0.3), below(0.5)],
    ] {
        let text = textfile::encode(&bench(&verdicts), 7);
        assert!(
            text.contains("selvage_bench_ratio{collective=\"unknown\"} 0.3\n"),
            "{text}"
        );
    }
    assert_eq!(textfile::FAMILIES.len(), 6);
}

#[test]
fn text_from_outside_steers_no_terminal() {
    let mut bench = bench(&[(Grade::Below, Some(0.456))]);
    bench.inputs.push(bench.inputs[0].clone());
    bench.inputs[0].runs[0].summary = "a\u{1b}[31mb".into();
    let text = text(&bench, Style::default());
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert!(
        text.starts_with("46 % OF LINE RATE  x?]0;y: a?[31mb"),
        "{text}"
    );
}
