//! The driver for Kubernetes with the components of Kubernetes, for `./test --fleet`: `csi-sanity`
//! in a guest whose kernel has NBD and ublk, a real API server with its provisioner and resizer,
//! and a gRPC client in Python.
//!
//! The tests need `etcd-server`, `qemu-system-x86_64`, Debian's kernel 6.12, and the programs of
//! Kubernetes that `packaging/fleet/kubernetes DIRECTORY` builds. Their directory is given by
//! `WEIR_FLEET=DIRECTORY/bin`.

mod cluster;
mod lab;
mod manifests;
mod node;
mod sanity;

use crate::csi::bench::program;
