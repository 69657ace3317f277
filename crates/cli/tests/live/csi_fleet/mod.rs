//! The driver for Kubernetes against what Kubernetes is made of, for `./test --fleet`: `csi-sanity` in a guest whose kernel has NBD and
//! ublk, a real API server with its provisioner and resizer, and a client of gRPC in Python.
//!
//! They need `etcd-server`, `qemu-system-x86_64`, Debian's kernel 6.12, and the programs of Kubernetes that `packaging/fleet/kubernetes DIRECTORY` makes:
//! `WEIR_FLEET=DIRECTORY/bin` says where they are.

mod cluster;
mod lab;
mod manifests;
mod node;
mod sanity;

use crate::csi::bench::program;
