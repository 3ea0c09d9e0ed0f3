//! The loop with a scripted model: what reaches the model, and what stays in the transcript.

mod agentkit;
mod calls;
mod interrupts;
mod mutators;
mod overflow;
mod properties;
mod rounds;
mod support;
mod time;
