//! What NCCL's log lines say: events, and the bounded state of one log.
