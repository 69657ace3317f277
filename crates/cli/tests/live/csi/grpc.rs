//! A client with gRPC's C core, in Python, which uses the path of the socket as the host.

use super::bench::{CsiBench, program};
use std::process::Command;

/// Calls two services with the default settings of the client, several times over one connection.
/// Its arguments are the directory of the interface, a directory for generated code, and the
/// socket.
const SCRIPT: &str = r#"
import os, sys, grpc, grpc_tools
from grpc_tools import protoc
proto, made, socket = sys.argv[1:]
include = "-I" + os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
assert protoc.main(["", "-I" + proto, include, "--python_out=" + made, "--grpc_python_out=" + made, proto + "/csi.proto"]) == 0
sys.path.insert(0, made)
import csi_pb2 as csi, csi_pb2_grpc as rpc
with grpc.insecure_channel("unix:" + socket) as channel:
    for _ in range(3):
        print(rpc.IdentityStub(channel).GetPluginInfo(csi.GetPluginInfoRequest(), timeout=30).name)
    print(len(rpc.ControllerStub(channel).ListVolumes(csi.ListVolumesRequest(), timeout=30).entries))
"#;

#[test]
fn a_client_in_python_is_answered() {
    let Some(python) = program("grpc-python") else {
        return;
    };
    let bench = CsiBench::new(None);
    bench.driver(None);
    let made = bench.scratch.path("made");
    std::fs::create_dir(&made).expect("a directory");
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../csi/proto");
    let ran = Command::new(python)
        .args(["-c", SCRIPT, proto])
        .args([made, bench.scratch.path("csi")])
        .output()
        .expect("it can be started");
    let err = String::from_utf8_lossy(&ran.stderr);
    let out = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(out, "weir.csi\nweir.csi\nweir.csi\n0\n", "{err}");
}
