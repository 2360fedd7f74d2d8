# A scenario whose last command succeeds and one before it fails. `run` starts it first: were it to
# pass, no other result would mean anything.
scenario() {
    false
    true
}
