//! Writes a simulated node: `cargo run --example simulate -- PRESET DIR`.
fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let (Some(spec), Some(dir)) = (selvage::simulate::preset(&name), args.next()) else {
        let names = selvage::simulate::PRESETS.join(" ");
        return Err(std::io::Error::other(format!(
            "usage: simulate PRESET DIR; presets: {names}"
        )));
    };
    selvage::simulate::Node::write(spec, dir).map(drop)
}
