//! Shockwave's coordinator: the shell around `shockwave-core`.
//!
//! Architecture invariant: decisions are made in the core; this crate carries them out (gRPC,
//! store, agent, command line, figures).

pub mod agent;
pub mod cli;
pub mod devices;
pub mod figures;
pub mod files;
pub mod grpc;
pub mod history;
mod incoming;
pub mod launcher;
pub mod reproduce;
pub mod runner;
pub mod secrets;
pub mod serve;
pub mod service;
pub mod simulation;
pub mod store;
pub mod tls;
pub mod web;
pub mod webhook;
