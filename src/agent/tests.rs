use super::*;
use crate::host::Host;
use crate::source::testtree::TestTree;
use crate::state::StateDir;

#[tokio::test]
async fn a_single_look_knows_what_the_agent_saw_this_boot() {
    let tree = TestTree::new();
    tree.file("proc/sys/kernel/random/boot_id", "a");
    for (name, bdf) in [("mlx5_0", "0000:19:00.0"), ("mlx5_1", "0000:1a:00.0")] {
        tree.mlx5(name, "0000:15:01.0", bdf);
    }
    let state = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.agent.host_root = tree.path("");
    config.agent.state_dir = Some(state.path().to_path_buf());
    let look = async || sample_once(&config).await.reasons;
    assert_eq!(look().await, Vec::<String>::new());

    let mut seen = crate::observe::History::default();
    let host = Arc::new(Host::new(tree.path("")));
    let clock = Clock::starting_at(Millis(1));
    let mut sampler = Sampler::new(host, config.clone(), clock, Some("a".into()), []);
    while !sampler.sampled_once() {
        sampler.step().await;
    }
    seen.push(sampler.snapshot(None));
    for (boot, want) in [("a", vec!["RailVanished"]), ("b", vec![])] {
        let mut memory = seen.memory();
        memory.boot_id = Some(boot.into());
        let saved = Saved::new(memory, Vec::new(), None);
        let saver = Saver::new(StateDir::new(Some(state.path())));
        saver.put(crate::state::FILE, &saved);
        saver.finish(std::time::Duration::ZERO);
        saver.run(|| ());
        if boot == "a" {
            tree.remove("sys/class/infiniband/mlx5_1");
            // Else the function without a device would be missed in any boot.
            tree.remove("sys/bus/pci/devices/0000:1a:00.0");
        }
        assert_eq!(look().await, want, "memory of boot {boot}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_this_host_s_is_refused_whatever_its_port() {
    use crate::config::listen::Listen;
    let own = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = own.local_addr().unwrap().port();
    let config = |address: [u8; 4], port| {
        let mut config = Config::default();
        config.agent.listen = Listen::new(Some(address.into()), port);
        config
    };
    let before = config([127, 0, 0, 1], port);
    for (address, other_port, can) in [
        ([127, 0, 0, 1], port, true),
        ([127, 0, 0, 2], port, true),
        ([127, 0, 0, 1], 0, true),
        // TEST-NET-3, which no host has.
        ([203, 0, 113, 77], port, false),
        ([203, 0, 113, 77], 0, false),
    ] {
        let now = config(address, other_port);
        let listens = serve::can_listen(&before, &now).await;
        assert_eq!(listens.is_ok(), can, "{address:?}:{other_port}");
    }
}
